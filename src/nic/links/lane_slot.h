// LaneSlot: the slot of UDP port 4791 that a lane holds. The kernel delivers packets for the slot's QPNs to
// its socket, so the lane numbers its QPs from that range.
#pragma once

#include <cerrno>
#include <cstdint>

#include "base/keys/keyed_order.h"
#include "base/problem.h"
#include "base/result.h"
#include "control/client/daemon_client.h"
#include "control/messages.h"
#include "transport/engine.h"

namespace rrdma::nic {

class LaneSlot {
 public:
  // `keys` determines the order of the QPNs.
  LaneSlot(control::DaemonClient& daemon, control::Slot number, const KeySource& keys)
      : daemon_(daemon), number_(number), order_(keys) {}

  [[nodiscard]] control::Slot number() const { return number_; }
  [[nodiscard]] bool holds(wire::Qpn qpn) const { return control::slot_of_qpn(qpn.value) == number_; }
  [[nodiscard]] Result<wire::Qpn, Problem> allocate_qpn(const transport::Engine& engine) {
    const control::QpnRange range = control::qpns_of(number_);
    for (std::uint32_t tries = range.count; tries > 0; --tries) {
      const std::uint32_t index = daemon_.next_qpn(number_).value - range.first;
      const wire::Qpn qpn(range.first + order_(index, control::size_of_slot(number_).qpn_bits));
      if (qpn != wire::kMulticastQpn && engine.find_qp(qpn) == nullptr) return qpn;
    }
    return problem(ENOMEM, "all queue pair numbers of this process are in use; destroy some QPs first.");
  }

 private:
  control::DaemonClient& daemon_;
  const control::Slot number_;
  const KeyedOrder order_;
};

}  // namespace rrdma::nic
