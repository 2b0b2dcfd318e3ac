// MemoryKinds: which kind of memory an address belongs to, and the kinds that the regions of this process
// use. A new kind gets a case here and an implementation beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nic/memory/cuda_kind.h"
#include "objects/memory.h"

namespace rrdma::nic {

// The place of a range of memory, as known before a lock is taken.
struct MemoryOrigin {
  int cuda_device = -1;      // -1: the CPU can touch it
  bool wholly_there = true;  // false: the range goes beyond the memory of that kind
  std::uint64_t address = 0;
  std::uint64_t octets = 0;

  [[nodiscard]] bool ordinary() const { return cuda_device < 0; }
  [[nodiscard]] static MemoryOrigin of(const void* address, std::size_t length);
  // True if the process uses memory of some kind.
  [[nodiscard]] static bool any_kind();
};

class MemoryKinds {
 public:
  // Prepares the memory for registration, and revokes regions whose memory was freed there. Returns the
  // number of its kind in the table; 0 for ordinary memory, and if there are too many kinds. REQUIRES: the
  // locks of all lanes.
  [[nodiscard]] std::uint8_t prepare(const MemoryOrigin& origin, objects::MemoryTable& table);

 private:
  struct Cuda {
    std::unique_ptr<CudaKind> kind;
    std::uint8_t number;
  };
  [[nodiscard]] const Cuda* cuda_of(int ordinal, objects::MemoryTable& table);

  std::vector<Cuda> cuda_;
};

}  // namespace rrdma::nic
