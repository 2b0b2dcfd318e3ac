// DeviceTotals: the totals of each device over all programs that use it or used it. As on hardware, the
// counters of a device only grow while the daemon lives. A user sees the totals of its own programs, root
// those of all (as in registry.h). The name identifies a device.
//
// Pages are untrusted: the numbers of devices per user, of counters per device and of users are bounded.
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
  // REQUIRES: the server outlives this.
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
    uid_t account;
    Devices devices;
  };
  struct Ended {
    control::PeerIdentity user;
    uid_t account;
    Devices devices;
  };
  [[nodiscard]] bool is_back(const Gone& gone);
  void settle(const Gone& gone);
  // Forgets the oldest user of the account that has the most: it may have thousands.
  void make_room();
  // A request that is answered in parts: each program has a page to read, and there may be thousands of
  // programs.
  struct Listing {
    std::uint32_t serial = 0;
    control::PeerIdentity asker;
    bool sees_all = false;
    int last = -1;  // the descriptor of the last client that was read
    std::vector<control::DeviceEntry> entries;
    [[nodiscard]] bool may_see(const control::PeerIdentity& user) const {
      return sees_all || control::is_one_user(asker, user);
    }
  };
  [[nodiscard]] Listing begin(const Client& asker, std::uint32_t serial);
  // True when the list is complete and sent.
  bool go_on(Client& client, Listing& listing);

  Server& server_;
  std::map<Client*, Listing> listings_;
  Instant go_on_at_ = kNever;
  // The most recent ones are kept separately: a program whose connection broke returns with the same page.
  std::deque<Gone> gone_;
  std::deque<Ended> ended_;  // one per user
};

}  // namespace rrdma::daemon
