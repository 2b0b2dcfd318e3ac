// Registering memory on behalf of the other files of this folder.
#pragma once

#include "verbs/objects.h"

namespace rrdma::verbs {

struct RegionForm {
  ibv_pd* pd = nullptr;
  void* address = nullptr;
  std::size_t length = 0;
  std::uint64_t iova = 0;
  unsigned access = 0;
  bool null_region = false;
};

// Does not look at the memory itself. Null with errno and a sentence on failure.
Mr* register_region(const char* call, const RegionForm& form);

}  // namespace rrdma::verbs
