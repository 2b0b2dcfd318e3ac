// Endpoint: the connection manager of one host, without I/O. It holds all connections and listeners behind
// QP1. MADs and time come in through handle_*; MADs to send and events for the owners go out through poll_*.
// next_deadline() tells when handle_timeouts() is due. Equal calls with equal seeds give equal MADs and
// events.
//
//   active side     connect -> ConnectReply  -> send_rtu -> (established) -> disconnect -> Disconnected
//   passive side    listen  -> ConnectRequest -> accept  -> Established   -> Disconnected -> disconnect
//   lookup (UD)     look_up -> LookupReply;  listen -> LookupRequest -> reply_lookup
//
// A MAD affects a connection only if it comes from the connection's peer. An ID stays valid until destroy(),
// which also closes the connection with the peer. Not thread-safe.
//
// Files: endpoint.cc (dispatch, queues, sending), endpoint_connect.cc (active side), endpoint_accept.cc
// (listeners, passive side), endpoint_close.cc (REJ, DREQ, DREP, TIMEWAIT, destroy), endpoint_lookup.cc
// (SIDR), endpoint_timers.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/instant.h"
#include "base/keys/key_source.h"
#include "base/octets.h"
#include "base/result.h"
#include "cm/connection.h"
#include "cm/connection_table.h"
#include "cm/counters.h"
#include "cm/deadline_heap.h"
#include "cm/listener_table.h"
#include "cm/parameters.h"
#include "cm/qp_attributes.h"
#include "cm/settings.h"
#include "cm/values/established.h"
#include "cm/values/event.h"
#include "wire/cm_mad.h"

namespace rrdma::cm {

// The addresses of a MAD's packet, from the view of this host.
struct MadAddresses {
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;  // of the receiving interface; 0: unknown
};

struct OutgoingMad {
  Route route;
  wire::MadBuffer octets{};
};

struct GidHash {
  std::size_t operator()(const wire::Gid& gid) const {
    return static_cast<std::size_t>(load_native<std::uint64_t>(gid.octets.data()) * 0x9e3779b97f4a7c15u ^
                                    load_native<std::uint64_t>(gid.octets.data() + 8));
  }
};

class Endpoint {
 public:
  // Outside of tests, `keys` is system_keys(): communication and transaction IDs derive from it.
  Endpoint(const Settings& settings, const KeySource& keys);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // ---- listeners ----
  [[nodiscard]] Result<ListenerId, Error> listen(const ListenParameters& parameters);
  // Requests that the owner has seen remain its own; the others are rejected.
  [[nodiscard]] Result<void, Error> stop_listening(Instant now, ListenerId id);

  // ---- connections ----
  [[nodiscard]] Result<ConnectionId, Error> connect(Instant now, const ConnectParameters& parameters);
  // Asks the peer for more time to answer its REQ or REP. Duplicates are answered by an MRA even without this
  // call.
  [[nodiscard]] Result<void, Error> send_mra(ConnectionId id, std::uint8_t service_timeout,
                                             Octets private_data = {});
  [[nodiscard]] Result<void, Error> accept(Instant now, ConnectionId id, const AcceptParameters& parameters);
  [[nodiscard]] Result<void, Error> reject(Instant now, ConnectionId id, const RejectParameters& parameters);
  [[nodiscard]] Result<void, Error> send_rtu(ConnectionId id, Octets private_data = {});
  // The passive queue pair has received a packet: the connection is established even before the RTU.
  [[nodiscard]] Result<void, Error> notify_established(ConnectionId id);
  // Sends a DREQ, or the DREP to the peer's DREQ.
  [[nodiscard]] Result<void, Error> disconnect(Instant now, ConnectionId id, Octets private_data = {});
  // Sends the remaining messages to the peer (REJ, DREQ, DREP) and releases the ID. No more events follow for
  // it.
  void destroy(Instant now, ConnectionId id);

  // ---- lookups of a UD service (SIDR) ----
  [[nodiscard]] Result<ConnectionId, Error> look_up(Instant now, const LookupParameters& parameters);
  [[nodiscard]] Result<void, Error> reply_lookup(Instant now, ConnectionId id,
                                                 const LookupReplyParameters& parameters);

  // ---- queries of owners ----
  [[nodiscard]] Result<void, Error> set_owner(ConnectionId id, OwnerToken owner);
  // The owners that an incoming message concerns: its recipient, and its sender if that is one of these
  // owners.
  [[nodiscard]] std::vector<OwnerToken> owners_of(const MadAddresses& addresses,
                                                  const wire::CmMad& mad) const;
  // Whether an incoming message is for a connection, a look-up or a listener here.
  [[nodiscard]] bool is_recipient(const MadAddresses& addresses, const wire::CmMad& mad) const;
  [[nodiscard]] std::optional<State> state_of(ConnectionId id) const;
  [[nodiscard]] Result<QpAttributes, Error> qp_attributes(ConnectionId id, QpStep step) const;
  [[nodiscard]] Result<EstablishedConnection, Error> snapshot(ConnectionId id) const;
  [[nodiscard]] Result<void, Error> restore(const EstablishedConnection& connection, OwnerToken owner);

  // Overrides the length of TIMEWAIT for a connection with this peer; empty: the packet lifetime. A
  // connection that is kept longer on purpose also keeps its queue pair: a REQ from that queue pair is
  // refused as stale.
  using TimewaitLength = std::function<std::optional<Duration>(OwnerToken owner, const wire::Gid& remote)>;
  void set_timewait_length(TimewaitLength length) { timewait_length_ = std::move(length); }

  // ---- the network and the clock ----
  void handle_mad(Instant now, const MadAddresses& addresses, Octets mad);
  // Handles some of the timers that are due: thousands may be due at the same time. The others stay due.
  void handle_timeouts(Instant now);
  [[nodiscard]] Instant next_deadline() const { return timers_.next_deadline(); }
  [[nodiscard]] std::optional<OutgoingMad> poll_mad();
  [[nodiscard]] std::optional<Event> poll_event();

  [[nodiscard]] const Counters& counters() const { return counters_; }
  // The count includes tombstones (connections without an owner that are kept for duplicates).
  [[nodiscard]] std::size_t connections() const { return table_.size(); }
  [[nodiscard]] std::size_t tombstones() const { return tombstone_count_; }
  [[nodiscard]] std::size_t listeners() const { return listeners_.size(); }

 private:
  struct Received {
    Instant now;
    const MadAddresses& addresses;
    const wire::CmMad& mad;
  };
  struct PendingEvent {
    std::uint64_t serial = 0;
    Event event;
  };

  Connection* owned(ConnectionId id) const;
  // Whether a connection with this ID exists, but the MAD does not come from its peer.
  bool is_foreign(const Received& in, wire::CommId local_id);
  void count_duplicate(const Received& in);
  // The peer has named an ID that it can know only by receiving our messages.
  void note_peer(const wire::Gid& peer);
  [[nodiscard]] bool may_be_forged(const Connection& connection) const;
  // Whether one more connection fits; may evict the oldest tombstone.
  bool make_room();

  // Incoming messages.
  void handle(const Received& in, const wire::CmReq& req);
  void handle(const Received& in, const wire::CmMra& mra);
  void handle(const Received& in, const wire::CmRej& rej);
  void handle(const Received& in, const wire::CmRep& rep);
  void handle(const Received& in, const wire::CmRtu& rtu);
  void handle(const Received& in, const wire::CmDreq& dreq);
  void handle(const Received& in, const wire::CmDrep& drep);
  void handle(const Received& in, const wire::CmSidrReq& req);
  void handle(const Received& in, const wire::CmSidrRep& rep);
  void handle(const Received& in, const wire::CmLap& lap);
  void handle(const Received& in, const wire::CmApr& apr);

  // Passive side.
  void handle_duplicate_req(const Received& in, Connection& connection);
  bool give_up_comm_id(const Received& in, const wire::CmReq& req, Connection& known);
  std::optional<wire::RejectReason> judge_req(const Received& in, const wire::CmReq& req) const;
  void refuse_req(const Received& in, const wire::CmReq& req, wire::RejectReason reason);
  Connection& admit_req(const Received& in, const wire::CmReq& req, Listener& listener);
  bool has_room(const Listener& listener) const;
  void count_unanswered(Connection& connection, Listener& listener);
  void count_half_open(Connection& connection);
  void leave_listener(Connection& connection);
  void become_established(Connection& connection, const PrivateData& private_data);

  // Active side.
  void take_rep(const Received& in, Connection& connection, const wire::CmRep& rep);
  void refuse_stale_rep(const Received& in, Connection& connection, const wire::CmRep& rep);
  void refuse_rep(const Received& in, const wire::CmRep& rep, wire::RejectReason reason);
  void repeat_rtu(Connection& connection);

  // Closing.
  Connection* rejected_connection(const Received& in, const wire::CmRej& rej);
  void send_rej(Connection& connection, const RejectParameters& parameters);
  void repeat_rejection(const Connection& connection);
  void send_dreq(Instant now, Connection& connection, Octets private_data);
  void send_drep(Instant now, Connection& connection, Octets private_data);
  void answer_dreq(const Received& in, const wire::CmDreq& dreq);
  void doubt(Instant now, Connection& connection);
  void ask_peer(Instant now, Connection& connection);
  void become_rejected(Instant now, Connection& connection);
  void enter_timewait(Instant now, Connection& connection);
  void become_idle(Connection& connection);
  void destroy(Instant now, Connection& connection);
  void send_timeout_rej(Connection& connection);
  void bury(Connection& connection);
  void erase(Connection& connection);

  // Lookups.
  void refuse_lookup(const Received& in, const wire::CmSidrReq& req, wire::SidrStatus status);
  void send_sidr_rep(Instant now, Connection& connection, const LookupReplyParameters& parameters);

  // Timers.
  void await_answer(Instant now, Connection& connection, Duration nominal, Duration first);
  void handle_timeout(Instant now, Connection& connection);
  void give_up(Instant now, Connection& connection);
  void send_again(Instant now, Connection& connection);

  // Queues.
  void send(Connection& connection, std::uint64_t transaction_id, wire::CmMessage message,
            std::uint32_t modifier = 0);
  void send_mra_now(Connection& connection, std::uint8_t service_timeout, Octets private_data);
  void resend(const Connection& connection);
  void answer(const Received& in, wire::CmMessage message);
  void queue_mad(const Route& route, const wire::MadBuffer& octets);
  void tell(const Connection& connection, EventDetails details, const PrivateData& private_data = {});
  std::uint64_t new_transaction_id(const Connection& connection);

  Settings settings_;
  KeySource keys_;
  ConnectionTable table_;
  ListenerTable listeners_;
  DeadlineHeap<Connection> timers_;
  IntrusiveList<Connection, &Connection::tombstone_hook> tombstone_list_;
  std::size_t tombstone_count_ = 0;
  std::deque<OutgoingMad> outgoing_;
  std::deque<PendingEvent> events_;
  Counters counters_;
  std::unordered_set<wire::Gid, GidHash> known_peers_;
  TimewaitLength timewait_length_;
};

}  // namespace rrdma::cm
