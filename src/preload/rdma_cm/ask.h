// Station::ask and Station::tell: requests to the daemon. A separate header, because several parts of the
// station use them.
#pragma once

#include <cerrno>

#include "host/explain.h"
#include "preload/rdma_cm/station.h"

namespace rrdma::rdma_cm {

template <typename Reply, typename Request>
Result<Reply, Problem> Station::ask(const Request& request) {
  const std::uint32_t before = uplink_.daemon_pid();
  auto reply = uplink_.ask<Reply>(request);
  const bool lost = !reply.ok() && reply.error().error == ECONNRESET;
  if (!lost && uplink_.daemon_pid() == before) return reply;
  adopt_new_daemon();
  if (reply.ok()) return reply;
  return uplink_.ask<Reply>(request);
}

template <typename Request>
int Station::tell(const char* call, const Request& request) {
  const auto reply = ask<control::Done>(request);
  return reply.ok() ? 0 : host::fail(reply.error().error, call, reply.error().sentence);
}

}  // namespace rrdma::rdma_cm
