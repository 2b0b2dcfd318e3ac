// DeviceTotals: what each device has carried, for all programs that use it or used it: the counters of a device only grow,
// as those of hardware do, for as long as the daemon lives. Who asks hears of what programs of its own user carried; root
// hears of all (as in registry.h). A device is known by its name.
//
// Pages are strangers': of each user so many devices are kept, with so many counters, and of so many users.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
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
  [[nodiscard]] Instant next_deadline() const override { return go_on_at_; }
  void handle_deadline(Instant now) override;

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
  // A question that is answered in parts: every program has a page to read, and who asks may have thousands of them.
  struct Listing {
    std::uint32_t serial = 0;
    control::PeerIdentity asker;
    bool sees_all = false;
    int last = -1;  // the descriptor of the client that was looked at last
    std::vector<control::DeviceEntry> entries;
    [[nodiscard]] bool may_see(const control::PeerIdentity& user) const {
      return sees_all || control::is_one_user(asker, user);
    }
  };
  [[nodiscard]] Listing begin(const Client& asker, std::uint32_t serial);
  // True when the list is finished and answered.
  bool go_on(Client& client, Listing& listing);

  Server& server_;
  std::map<Client*, Listing> listings_;
  Instant go_on_at_ = kNever;
  // The last ones apart: a program whose connection broke comes back with the page that it had.
  std::deque<Gone> gone_;
  std::deque<Ended> ended_;  // one for each user
};

}  // namespace rrdma::daemon
