// CudaIdentities: the allocations that the registered regions of one device lie in. CUDA gives every
// allocation a number that is never used again (CU_POINTER_ATTRIBUTE_BUFFER_ID). An address whose allocation
// was freed may belong to another one soon after, and a region that still names it must not reach that one.
// An allocation keeps its extent, so one question to the driver answers for all bytes of a copy.
//
// Threads: changes need the locks of all lanes, lookups the lock of one.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "nic/memory/cuda_library.h"

namespace rrdma::nic {

class CudaIdentities {
 public:
  CudaIdentities(const CudaLibrary& cuda, int ordinal) : cuda_(cuda), ordinal_(ordinal) {}

  void add(std::uint32_t key, std::uint64_t address, std::uint64_t octets);
  void remove(std::uint32_t key);
  // True if the bytes lie in memory of the device that was there when a region was registered.
  [[nodiscard]] bool holds(std::uint64_t address, std::uint64_t octets) const;
  // The keys of regions that overlap these bytes and whose memory was freed since.
  [[nodiscard]] std::vector<std::uint32_t> find_stale(std::uint64_t address, std::uint64_t octets) const;

 private:
  struct Allocation {
    std::uint64_t first = 0;
    std::uint64_t end = 0;      // every byte before it has the number of the first
    std::uint32_t regions = 0;  // that lie in it
  };
  struct Registered {
    std::uint64_t first = 0;
    std::uint64_t octets = 0;
    std::vector<unsigned long long> numbers;  // of the allocations, from the first on
  };
  // False: it is not memory of the device.
  [[nodiscard]] bool find_number(std::uint64_t address, unsigned long long& number) const;
  // The registered allocation that the byte belongs to; null: none.
  [[nodiscard]] const Allocation* find_allocation(std::uint64_t address) const;

  const CudaLibrary& cuda_;
  const int ordinal_;
  std::unordered_map<std::uint32_t, Registered> regions_;
  std::unordered_map<unsigned long long, Allocation> allocations_;  // by number
};

}  // namespace rrdma::nic
