// LaneSlot: the slot of UDP port 4791 that a lane holds: the kernel brings it what is for QPNs with that top octet, so
// these are the numbers of the lane's QPs.
#pragma once

#include <cerrno>
#include <cstdint>

#include "base/problem.h"
#include "base/result.h"
#include "control/client/daemon_client.h"
#include "control/messages.h"
#include "transport/engine.h"

namespace rrdma::nic {

class LaneSlot {
 public:
  LaneSlot(control::DaemonClient& daemon, std::uint8_t number) : daemon_(daemon), number_(number) {}

  [[nodiscard]] std::uint8_t number() const { return number_; }
  [[nodiscard]] bool holds(wire::Qpn qpn) const { return control::slot_of_qpn(qpn.value) == number_; }
  // Numbers go round, so that one which was destroyed lately does not come again soon.
  [[nodiscard]] Result<wire::Qpn, Problem> allocate_qpn(const transport::Engine& engine) {
    for (int tries = 0; tries < kNumbers; ++tries) {
      const wire::Qpn qpn = daemon_.next_qpn(number_);
      if (engine.find_qp(qpn) == nullptr) return qpn;
    }
    return problem(ENOMEM, "all queue pair numbers of this process are in use; destroy some QPs first.");
  }

 private:
  static constexpr int kNumbers = 65536;
  control::DaemonClient& daemon_;
  const std::uint8_t number_;
};

}  // namespace rrdma::nic
