// Creates a CQ, for both forms of the call.
#pragma once

#include "preload/verbs/objects.h"

namespace rrdma::verbs {

struct CqForm {
  std::int64_t entries = 0;
  void* user_context = nullptr;
  ibv_comp_channel* channel = nullptr;
  int vector = 0;
};

// Null with errno and an explanation on failure.
Cq* create_cq(const char* call, ibv_context* context, const CqForm& form);

}  // namespace rrdma::verbs
