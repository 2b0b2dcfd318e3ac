// Texts of the explain channel for a connection that fails: the peer's connection manager rejected it (REJ,
// SIDR_REP), or did not answer.
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
