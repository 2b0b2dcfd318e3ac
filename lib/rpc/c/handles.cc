#include "lib/rpc/c/handles.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace c {
namespace {
constexpr unsigned kKindShift = 24;
constexpr unsigned kGenerationShift = 32;
constexpr std::uint64_t kSlotMask = (1U << kKindShift) - 1;
}  // namespace

Handles& Handles::all() {
  // Never destroyed: threads of the library may end after the destructors of the program have run.
  static auto* table = new Handles;
  return *table;
}

std::uint64_t Handles::add(std::shared_ptr<Object> object) {
  const std::lock_guard hold(mutex_);
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t at = free_.back();
  free_.pop_back();
  Slot& slot = slots_[at];
  ++slot.generation;
  object->handle_ = std::uint64_t{slot.generation} << kGenerationShift |
                    std::uint64_t{static_cast<std::uint8_t>(object->kind())} << kKindShift | at;
  slot.object = std::move(object);
  return slot.object->handle_;
}

Handles::Slot* Handles::slot_of(std::uint64_t handle, Kind kind) {
  const std::uint64_t at = handle & kSlotMask;
  if (at >= slots_.size()) return nullptr;
  Slot& slot = slots_[at];
  if (slot.object == nullptr || slot.object->handle_ != handle || slot.object->kind_ != kind) return nullptr;
  return &slot;
}

}  // namespace c
}  // namespace v0
}  // namespace rrdma::rpc
