#include "nic/memory/cuda_identities.h"

#include <algorithm>

namespace rrdma::nic {

bool CudaIdentities::find_number(std::uint64_t address, unsigned long long& number) const {
  unsigned type = 0;
  int ordinal = -1;
  number = 0;
  int attributes[] = {kCudaAttributeMemoryType, kCudaAttributeDeviceOrdinal, kCudaAttributeBufferId};
  void* values[] = {&type, &ordinal, &number};
  return cuda_.cuPointerGetAttributes(3, attributes, values, address) == kCudaSuccess &&
         type == kCudaMemoryDevice && ordinal == ordinal_;
}

// A region may span several allocations that were mapped side by side (cuMemMap).
void CudaIdentities::add(std::uint32_t key, std::uint64_t address, std::uint64_t octets) {
  Registered region{address, octets, {}};
  const std::uint64_t end = address + octets;
  for (std::uint64_t at = address; at < end;) {
    unsigned long long number = 0, last_number = 0;
    if (!find_number(at, number)) break;
    region.numbers.push_back(number);
    Allocation& allocation = allocations_[number];
    ++allocation.regions;
    CudaAddress first = 0;
    std::size_t length = 0;
    if (!cuda_.sharing || cuda_.cuMemGetAddressRange(&first, &length, at) != kCudaSuccess) break;
    if (first > at || first + length <= at) break;
    at = first + length;
    if (find_number(at - 1, last_number) && last_number == number) {
      allocation.first = first;
      allocation.end = at;
    }
  }
  regions_[key] = std::move(region);
}

void CudaIdentities::remove(std::uint32_t key) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return;
  for (const unsigned long long number : found->second.numbers) {
    const auto counted = allocations_.find(number);
    if (--counted->second.regions == 0) allocations_.erase(counted);
  }
  regions_.erase(found);
}

const CudaIdentities::Allocation* CudaIdentities::find_allocation(std::uint64_t address) const {
  unsigned long long number = 0;
  if (!find_number(address, number)) return nullptr;
  const auto found = allocations_.find(number);
  return found != allocations_.end() ? &found->second : nullptr;
}

bool CudaIdentities::holds(std::uint64_t address, std::uint64_t octets) const {
  const Allocation* const allocation = find_allocation(address);
  if (allocation == nullptr) return false;
  const bool within = address >= allocation->first && address + octets <= allocation->end;
  return within || octets <= 1 || find_allocation(address + octets - 1) != nullptr;
}

std::vector<std::uint32_t> CudaIdentities::find_stale(std::uint64_t address, std::uint64_t octets) const {
  std::vector<std::uint32_t> stale;
  for (const auto& [key, region] : regions_) {
    if (address >= region.first + region.octets || region.first >= address + octets) continue;
    unsigned long long number = 0;
    const bool is_there =
        find_number(region.first, number) && !region.numbers.empty() && number == region.numbers.front();
    if (!is_there) stale.push_back(key);
  }
  return stale;
}

}  // namespace rrdma::nic
