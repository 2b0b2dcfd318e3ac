// DeviceTotals: what each device has carried, for all programs that use it or used it: the counters of a device only grow,
// as those of hardware do, for as long as the daemon lives. Who asks hears of what programs of its own user carried; root
// hears of all (as in registry.h). A device is known by its name.
//
// Pages are strangers': of each user so many devices are kept, with so many counters, and of so many users.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "control/messages.h"
#include "control/process_page.h"
#include "daemon/server.h"
#include "daemon/subsystem.h"

namespace rrdma::daemon {

class DeviceTotals final : public Subsystem {
 public:
  // REQUIRES: it outlives this.
  explicit DeviceTotals(Server& server) : server_(server) {}

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;

 private:
  using Devices = std::vector<control::DeviceSnapshot>;
  struct Gone {
    std::uint64_t token;
    control::PeerIdentity user;
    Devices devices;
  };
  struct Ended {
    control::PeerIdentity user;
    Devices devices;
  };
  [[nodiscard]] bool is_back(const Gone& gone);
  void settle(const Gone& gone);
  [[nodiscard]] std::vector<control::DeviceEntry> seen_by(const Client& asker);

  Server& server_;
  // The last ones apart: a program whose connection broke comes back with the page that it had.
  std::deque<Gone> gone_;
  std::deque<Ended> ended_;  // one for each user
};

}  // namespace rrdma::daemon
