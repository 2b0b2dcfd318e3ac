// Multicast groups of UD QPs.
#include <infiniband/verbs.h>

#include "nic/explain.h"
#include "verbs/objects.h"
#include "verbs/real_library.h"

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (!is_own(qp->context)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_attach_mcast, "IBVERBS_1.1", qp, gid, lid);
  return nic::fail(EOPNOTSUPP, "ibv_attach_mcast", "not supported.");
}

RRDMA_VERBS int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  if (!is_own(qp->context)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_detach_mcast, "IBVERBS_1.1", qp, gid, lid);
  return nic::fail(EOPNOTSUPP, "ibv_detach_mcast", "not supported.");
}
