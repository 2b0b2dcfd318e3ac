// LaneSlot: the slot of UDP port 4791 that a lane holds: the kernel brings it what is for the QPNs of that slot, so
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
  LaneSlot(control::DaemonClient& daemon, control::Slot number) : daemon_(daemon), number_(number) {}

  [[nodiscard]] control::Slot number() const { return number_; }
  [[nodiscard]] bool holds(wire::Qpn qpn) const { return control::slot_of_qpn(qpn.value) == number_; }
  // Numbers go round, so that one which was destroyed lately does not come again soon.
  [[nodiscard]] Result<wire::Qpn, Problem> allocate_qpn(const transport::Engine& engine) {
    for (std::uint32_t tries = control::qpns_of(number_).count; tries > 0; --tries) {
      const wire::Qpn qpn = daemon_.next_qpn(number_);
      if (engine.find_qp(qpn) == nullptr) return qpn;
    }
    return problem(ENOMEM, "all queue pair numbers of this process are in use; destroy some QPs first.");
  }

 private:
  control::DaemonClient& daemon_;
  const control::Slot number_;
};

}  // namespace rrdma::nic
