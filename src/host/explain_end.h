// One line on standard error at the end of a program that had failed requests or refused calls. `rrdma run`
// asks for it: RRDMA_EXPLAIN=terminal (only if standard error is a terminal), always or never. A program that
// a signal ends leaves no line.
#pragma once

#include <string>
#include <string_view>

#include "host/explain_log.h"

namespace rrdma::host {

// The `call` of sentences about the process at the other end.
inline constexpr std::string_view kPeerCall = "peer";
// Of sentences about requests of a peer that were refused.
inline constexpr std::string_view kPeersRequest = "peer's request";

// Registers the line, if RRDMA_EXPLAIN asks for it. explain_log() calls it once.
void tell_at_end();

// "2 calls refused: ibv_modify_qp: sgid_index 7 is empty on rrdma0; use 1 (10.9.0.1). See `rrdma explain
// --pid 12`." Empty if nothing failed. Injected faults do not count: they are on purpose.
[[nodiscard]] std::string end_line(const ExplainedProcess& process);

}  // namespace rrdma::host
