// ibv_wr_*: send requests built field by field.
#pragma once

#include "preload/verbs/objects.h"

namespace rrdma::verbs {

// Returns 0 if a QP of this type supports all these operations, else an errno that was explained.
int check_builders(const char* call, ibv_qp_type type, std::uint64_t operations);
// Sets the functions of the QP for the operations.
void fill_builders(Qp& qp, std::uint64_t operations);

}  // namespace rrdma::verbs
