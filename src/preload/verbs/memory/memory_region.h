// Memory registration for the other files of this folder.
#pragma once

#include "nic/memory/memory_kinds.h"
#include "preload/verbs/objects.h"

namespace rrdma::verbs {

struct RegionForm {
  ibv_pd* pd = nullptr;
  void* address = nullptr;
  std::size_t length = 0;
  std::uint64_t iova = 0;
  unsigned access = 0;
  bool null_region = false;
  nic::MemoryOrigin origin;
};

// Does not access the memory itself. Null with errno and an explanation on failure.
Mr* register_region(const char* call, const RegionForm& form);

// Also checks the memory: it must be mapped, unless it is registered on demand, or be of a kind that the
// process can reach in another way.
ibv_mr* register_memory(const char* call, ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access);

}  // namespace rrdma::verbs
