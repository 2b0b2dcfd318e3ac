#include "verbs/work_request_builders.h"

#include "nic/explain.h"

namespace rrdma::verbs {

int check_builders(const char* call, ibv_qp_type, std::uint64_t) {
  return nic::fail(EOPNOTSUPP, call, "send_ops_flags is not supported.");
}

void fill_builders(Qp&, std::uint64_t) {}

}  // namespace rrdma::verbs
