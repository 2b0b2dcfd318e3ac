// Recognition: tells the programs of this host which peers on other hosts are RRDMA. It runs a PeerBook on
// QP1, replies to programs with the known state, and notifies those that asked when more is known.
#pragma once

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "control/recognition_messages.h"
#include "daemon/client.h"
#include "daemon/counters.h"
#include "daemon/qp1/mad_port.h"
#include "daemon/qp1/peer_book.h"
#include "daemon/shares/shares.h"
#include "daemon/subsystem.h"
#include "host/interfaces.h"

namespace rrdma::daemon {

class Recognition final : public Subsystem {
 public:
  // REQUIRES: `mads` and `counters` outlive this. `strict`: neither asks nor answers.
  Recognition(MadPort& mads, Counters& counters, bool strict, const KeySource& keys);

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;
  [[nodiscard]] Instant next_deadline() const override {
    return std::min(book_.next_deadline(), tells_again_at_);
  }
  void handle_deadline(Instant now) override;

 private:
  void handle_mad(const ReceivedMad& mad);
  void send_mads(Instant now);
  void remember(Client& client, const wire::Gid& remote);
  void forget(const std::unordered_set<Client*>& clients);
  // Tells some of the programs that wait for an answer.
  void tell(Instant now);

  MadPort& mads_;
  Counters& counters_;
  const bool strict_;
  PeerBook book_;
  host::InterfaceMonitor monitor_;
  std::unordered_map<wire::Gid, std::unordered_set<Client*>, cm::GidHash> curious_;
  // Answers of peers, and the programs that are still to be told.
  struct Answer {
    control::PeerRecognised event;
    std::unordered_set<Client*> clients;
  };
  std::deque<Answer> answers_;
  Instant tells_again_at_ = kNever;
  Shares curiosity_;  // bounds the number of addresses that a user asks for at a time
};

}  // namespace rrdma::daemon
