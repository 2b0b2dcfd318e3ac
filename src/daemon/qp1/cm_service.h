// ConnectionService: the connection manager of this host. It runs cm::Endpoint on QP1 for all programs, holds
// their ports, and translates requests into calls of the Endpoint and its events into messages. The program's
// side (preload/rdma_cm/) defines rdma_cm ids and their states.
//
// Events wait in an outbox of their program until its socket accepts them: none is lost, and a program that
// does not read blocks no other. When a program is gone, its connections send a disconnect to their peers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cm/endpoint.h"
#include "control/cm_messages.h"
#include "daemon/client.h"
#include "daemon/counters.h"
#include "daemon/qp1/cm_ports.h"
#include "daemon/qp1/mad_port.h"
#include "daemon/shares/shares.h"
#include "daemon/slots/slots.h"
#include "daemon/subsystem.h"

namespace rrdma::daemon {

class ConnectionService final : public Subsystem {
 public:
  // REQUIRES: all outlive this. `keys`: system_keys() outside tests.
  ConnectionService(MadPort& mads, const Slots& slots, Counters& counters, KeySource keys);

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;
  [[nodiscard]] Instant next_deadline() const override;
  // The programs that a message concerns: its owner, and its sender if that is a program of this daemon.
  [[nodiscard]] std::vector<Client*> concerned_by(const cm::MadAddresses& addresses,
                                                  const wire::CmMad& mad) const;
  void handle_deadline(Instant now) override;

  // Called when a connection enters TIMEWAIT, with its program (null: gone) and its peer. REQUIRES: set
  // before programs connect.
  using TimewaitLength = std::function<std::optional<Duration>(Client* program, const wire::Gid& remote)>;
  void set_timewait_length(TimewaitLength length);
  // Called with each MAD that concerns no program here; false: nobody took it, and it is handled as one for
  // nobody.
  void set_others(std::function<bool(const ReceivedMad&)> others) { others_ = std::move(others); }

 private:
  struct Program {
    Client* client = nullptr;  // null: gone
    uid_t account = 0;
    std::uint32_t serial = 0;
    std::unordered_map<std::uint32_t, cm::ListenerId> listeners;  // by number
    // Those that have a port; the value is the port space if the port is ephemeral.
    std::unordered_map<std::uint32_t, std::optional<wire::PortSpace>> numbers;
    std::unordered_set<std::uint32_t> connections;
    std::deque<control::CmEvent> outbox;

    [[nodiscard]] CmOwner owner(std::uint32_t number) const { return std::uint64_t{serial} << 32 | number; }
  };

  // Requests. Each is answered exactly once.
  void handle(Program& program, const control::Received& request, const control::CmBind& bind);
  void handle(Program& program, const control::Received& request, const control::CmRelease& release);
  void handle(Program& program, const control::Received& request, const control::CmListen& listen);
  void handle(Program& program, const control::Received& request, const control::CmConnect& connect);
  void handle(Program& program, const control::Received& request, const control::CmLookUp& look_up);
  void handle(Program& program, const control::Received& request, const control::CmAccept& accept);
  void handle(Program& program, const control::Received& request, const control::CmReject& reject);
  void handle(Program& program, const control::Received& request, const control::CmReplyLookUp& reply);
  void handle(Program& program, const control::Received& request, const control::CmReady& ready);
  void handle(Program& program, const control::Received& request, const control::CmNotify& notify);
  void handle(Program& program, const control::Received& request, const control::CmDisconnect& disconnect);
  void handle(Program& program, const control::Received& request, const control::CmDestroy& destroy);
  void handle(Program& program, const control::Received& request, const control::CmRestore& restore);
  template <typename Message>
  Verdict take(Client& client, control::Received& message);

  Program& program_of(Client& client);
  [[nodiscard]] bool owns(const Program& program, cm::ConnectionId connection) const;
  // Counts one more connection for the program's user; if that exceeds its share, the request fails.
  [[nodiscard]] bool may_start(Program& program, const control::Received& request);
  void start(Program& program, const control::Received& request,
             const Result<cm::ConnectionId, cm::Error>& started);
  void forget(Program& program, cm::ConnectionId connection);
  void answer(Program& program, const control::Received& request, const Result<void, cm::Error>& outcome);
  void release(Program& program, std::uint32_t number, Instant now);
  // The programs of an account that are gone. A bounded number of their ids ends in each turn, listeners
  // first.
  struct Ended {
    std::deque<std::unique_ptr<Program>> programs;
    std::deque<Program*> listening;  // those that still have listeners
  };
  void clean_up(Ended& ended, Instant now);
  void clean_up_one(Ended& ended, Instant now);
  [[nodiscard]] Shares& ephemeral_shares(wire::PortSpace space);
  // Whether the program owns what a call names: the QPN must be in one of its slots, the address of this
  // host.
  [[nodiscard]] bool may_use_qpn(const Program& program, wire::Qpn qpn) const;
  void refuse_qpn(Program& program, const control::Received& request);
  [[nodiscard]] bool may_use(Program& program, const control::Received& request, wire::Qpn qpn,
                             const wire::Gid& local);

  // Moves MADs and events until nothing moves any more.
  void pump(Instant now);
  [[nodiscard]] bool is_for_others(const ReceivedMad& mad) const;
  void deliver(const cm::Event& event, Instant now);
  [[nodiscard]] bool may_call(const cm::Route& route, const std::optional<wire::IpCmHeader>& ip);
  void flush(Program& program, Instant now);
  void flush_some(Instant now);
  void drop_front(Program& program);

  Counters& counters_;
  MadPort& mads_;
  const Slots& slots_;
  cm::Endpoint endpoint_;
  PortTable ports_;
  // The shares of users: ports, connections, events that wait for their program.
  Shares port_shares_;
  std::map<wire::PortSpace, Shares> ephemeral_shares_;
  Shares connection_shares_;
  Shares event_shares_;
  std::unordered_map<const Client*, std::unique_ptr<Program>> programs_;
  std::unordered_map<std::uint32_t, Program*> by_serial_;
  std::uint32_t last_serial_ = 0;
  std::function<bool(const ReceivedMad&)> others_;
  std::map<uid_t, Ended> ended_;
  Instant cleans_up_at_ = kNever;
  std::set<std::uint32_t> behind_;  // the serials of programs whose outbox is not empty
  std::uint32_t flushed_last_ = 0;
  Instant flush_at_ = kNever;
};

}  // namespace rrdma::daemon
