// LastAnswers: repeats the last acknowledgements of programs that are gone. A program may exit, or be killed,
// while the acknowledgement of its last message is held or was lost. Its peer would retransmit until its
// retries run out, and fail although the message arrived. Like TIME_WAIT of TCP, this sends the last
// acknowledgement of each recently used UDP connection at once, and a few times more. Duplicates do no harm.
//
// The page of a dead program is untrusted: nothing is sent that its user could not have sent.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/instant.h"
#include "control/process_page.h"
#include "daemon/client.h"
#include "daemon/counters.h"
#include "daemon/shares/shares.h"
#include "daemon/slots/network.h"
#include "daemon/slots/slots.h"
#include "daemon/subsystem.h"
#include "link/udp/udp_link.h"

namespace rrdma::daemon {

class LastAnswers final : public Subsystem {
 public:
  // REQUIRES: all outlive this.
  LastAnswers(Slots& slots, Network& network, Counters& counters)
      : slots_(slots), network_(network), counters_(counters), shares_(kPendingMax, ::geteuid()) {}

  Verdict handle_message(Client&, control::Received&) override { return Verdict::kOthers; }
  void handle_client_gone(Client& client) override;
  [[nodiscard]] Instant next_deadline() const override;
  void handle_deadline(Instant now) override;

 private:
  static constexpr std::size_t kPendingMax = 1024;

  struct Pending {
    control::QpAnswer content;
    control::PeerIdentity author;
    uid_t account = 0;
    std::size_t said = 0;
    Instant gone_at;
    [[nodiscard]] Instant due() const;
  };

  void say(const Pending& pending, Instant now);
  bool say_within_host(const Pending& pending);
  void say_to_network(const control::QpAnswer& content, Instant now);
  [[nodiscard]] link::UdpLink* link_for(const objects::Path& path);

  Slots& slots_;
  Network& network_;
  Counters& counters_;
  Shares shares_;
  std::vector<Pending> pending_;                                   // at most kPendingMax
  std::map<std::uint16_t, std::unique_ptr<link::UdpLink>> links_;  // by source port
};

}  // namespace rrdma::daemon
