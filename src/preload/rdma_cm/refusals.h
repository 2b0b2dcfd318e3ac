// What the explain channel says when a connection does not come about: the peer's connection manager said no
// (REJ, SIDR_REP), or nobody answered.
#pragma once

#include <string>

#include "host/explain_facts.h"
#include "preload/rdma_cm/address.h"
#include "wire/cm_reasons.h"

namespace rrdma::rdma_cm {

[[nodiscard]] std::string rejection_sentence(const IpAddress& peer, wire::RejectReason reason);
[[nodiscard]] std::string look_up_sentence(const IpAddress& peer, wire::SidrStatus status);
[[nodiscard]] std::string unreachable_sentence(const IpAddress& peer);

void explain_rejection(const IpAddress& peer, wire::RejectReason reason);

}  // namespace rrdma::rdma_cm
