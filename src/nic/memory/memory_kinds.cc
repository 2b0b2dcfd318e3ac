#include "nic/memory/memory_kinds.h"

namespace rrdma::nic {

MemoryOrigin MemoryOrigin::of(const void* address, std::size_t length) {
  const CudaLibrary* const cuda = CudaLibrary::find();
  if (cuda == nullptr) return {};
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const int device = cuda_device_of(*cuda, at);
  if (device < 0) return {};
  return {.cuda_device = device,
          .wholly_there = length == 0 || cuda_device_of(*cuda, at + length - 1) == device};
}

bool MemoryOrigin::any_kind() { return CudaLibrary::find() != nullptr; }

std::uint8_t MemoryKinds::number(const MemoryOrigin& origin, objects::MemoryTable& table) {
  if (origin.ordinary()) return 0;
  for (const Cuda& known : cuda_) {
    if (known.kind->ordinal() == origin.cuda_device) return known.number;
  }
  auto kind = std::make_unique<CudaKind>(*CudaLibrary::find(), origin.cuda_device);
  const std::uint8_t number = table.add_kind(*kind);
  if (number != 0) cuda_.push_back({std::move(kind), number});
  return number;
}

}  // namespace rrdma::nic
