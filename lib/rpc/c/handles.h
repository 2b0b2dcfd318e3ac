// Handles: the numbers by which C programs name objects. A handle holds a slot, the kind of the object and a
// generation, so that a stale or foreign number finds nothing. Any thread may use the table.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rrdma::rpc {
inline namespace v0 {
namespace c {

enum class Kind : std::uint8_t { kContext = 1, kServer, kChannel, kCall, kBuffer };

class Object {
 public:
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  [[nodiscard]] Kind kind() const { return kind_; }
  // 0 before it is added to the table.
  [[nodiscard]] std::uint64_t handle() const { return handle_; }

 protected:
  explicit Object(Kind kind) : kind_(kind) {}

 private:
  friend class Handles;
  Kind kind_;
  std::uint64_t handle_ = 0;
};

class Handles {
 public:
  static Handles& all();

  std::uint64_t add(std::shared_ptr<Object> object);
  // Returns null if the handle is stale or names an object of another kind.
  template <typename T>
  std::shared_ptr<T> find(std::uint64_t handle) {
    const std::lock_guard hold(mutex_);
    Slot* slot = slot_of(handle, T::kKind);
    return slot != nullptr ? std::static_pointer_cast<T>(slot->object) : nullptr;
  }
  // The same, and makes the handle invalid.
  template <typename T>
  std::shared_ptr<T> take(std::uint64_t handle) {
    const std::lock_guard hold(mutex_);
    Slot* slot = slot_of(handle, T::kKind);
    if (slot == nullptr) return nullptr;
    free_.push_back(static_cast<std::uint32_t>(slot - slots_.data()));
    return std::static_pointer_cast<T>(std::exchange(slot->object, nullptr));
  }

 private:
  struct Slot {
    std::shared_ptr<Object> object;
    std::uint32_t generation = 0;
  };
  Slot* slot_of(std::uint64_t handle, Kind kind);

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace c
}  // namespace v0
}  // namespace rrdma::rpc
