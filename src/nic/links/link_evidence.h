// LinkEvidence: what the links of a lane know about a request that failed.
#pragma once

#include <cstdint>
#include <optional>

#include "link/udp/network_reports.h"

namespace rrdma::nic {

struct LinkEvidence {
  std::uint64_t lost = 0;  // packets that injected faults have dropped in this lane so far
  std::optional<link::NetworkReport> report = std::nullopt;  // what the network answered
};

}  // namespace rrdma::nic
