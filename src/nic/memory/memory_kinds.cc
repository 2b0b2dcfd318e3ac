#include "nic/memory/memory_kinds.h"

namespace rrdma::nic {

MemoryOrigin MemoryOrigin::of(const void* address, std::size_t length) {
  const CudaLibrary* const cuda = CudaLibrary::find();
  if (cuda == nullptr) return {};
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const int device = cuda_device_of(*cuda, at);
  if (device < 0) return {};
  return {.cuda_device = device,
          .wholly_there = length == 0 || cuda_device_of(*cuda, at + length - 1) == device,
          .address = at,
          .octets = length};
}

bool MemoryOrigin::any_kind() { return CudaLibrary::find() != nullptr; }

const MemoryKinds::Cuda* MemoryKinds::cuda_of(int ordinal, objects::MemoryTable& table) {
  for (const Cuda& known : cuda_) {
    if (known.kind->ordinal() == ordinal) return &known;
  }
  auto kind = std::make_unique<CudaKind>(*CudaLibrary::find(), ordinal);
  const std::uint8_t number = table.add_kind(*kind);
  if (number == 0) return nullptr;
  kind->join(table, number);
  cuda_.push_back({std::move(kind), number});
  return &cuda_.back();
}

std::uint8_t MemoryKinds::prepare(const MemoryOrigin& origin, objects::MemoryTable& table) {
  if (origin.ordinary()) return 0;
  const Cuda* const cuda = cuda_of(origin.cuda_device, table);
  if (cuda == nullptr) return 0;
  for (const std::uint32_t key : cuda->kind->find_stale(origin.address, origin.octets)) table.revoke(key);
  cuda->kind->prepare(origin.address);
  return cuda->number;
}

}  // namespace rrdma::nic
