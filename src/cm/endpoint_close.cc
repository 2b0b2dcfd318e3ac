// The end of connections: REJ, DREQ, DREP, TIMEWAIT and destroy().
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "cm/endpoint.h"
#include "cm/private_octets.h"

namespace rrdma::cm {

using wire::CmMessageKind;

namespace {

constexpr std::uint8_t kAsksMax = 3;

}  // namespace

Result<void, Error> Endpoint::reject(Instant now, ConnectionId id, const RejectParameters& parameters) {
  Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  if (parameters.private_data.size() > wire::kRejPrivateOctets) return Failure{Error::kPrivateDataTooLong};
  if (parameters.info.size() > wire::kAdditionalInfoOctets) return Failure{Error::kInfoTooLong};
  switch (connection->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      send_rej(*connection, parameters);
      become_idle(*connection);
      return {};
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kRepReceived:
    case State::kMraRepSent:
      send_rej(*connection, parameters);
      become_rejected(now, *connection);
      return {};
    default: return Failure{Error::kWrongState};
  }
}

void Endpoint::send_rej(Connection& connection, const RejectParameters& parameters) {
  wire::CmRej rej{.local_comm_id = connection.id,
                  .remote_comm_id = connection.remote_id,
                  .kind = CmMessageKind::kOther,
                  .info_length = static_cast<std::uint8_t>(parameters.info.size()),
                  .reason = parameters.reason};
  switch (connection.state) {
    case State::kReqReceived:
      // The peer does not know our ID.
      rej.local_comm_id = {};
      rej.kind = CmMessageKind::kReq;
      break;
    case State::kMraReqSent: rej.kind = CmMessageKind::kReq; break;
    case State::kRepReceived:
    case State::kMraRepSent: rej.kind = CmMessageKind::kRep; break;
    default: break;
  }
  place_octets(parameters.info, rej.info);
  place_octets(parameters.private_data.view(), rej.private_data);
  send(connection, connection.transaction_id, rej);
}

// Nothing to repeat if it was the peer that rejected.
void Endpoint::repeat_rejection(const Connection& connection) {
  if (connection.last_sent.has_value()) resend(connection);
}

// A timeout REJ may come from a peer that does not know our ID. It then carries the peer's own ID.
Connection* Endpoint::rejected_connection(const Received& in, const wire::CmRej& rej) {
  if (rej.reason == wire::RejectReason::kTimeout && rej.local_comm_id.value != 0) {
    Connection* connection =
        table_.find_remote(RemoteKind::kCommId, in.addresses.remote, rej.local_comm_id.value);
    if (connection != nullptr) return is_foreign(in, connection->id) ? nullptr : connection;
  }
  if (is_foreign(in, rej.remote_comm_id)) return nullptr;
  Connection* connection = table_.find(rej.remote_comm_id);
  if (connection == nullptr) return nullptr;
  if (connection->state == State::kReqSent || connection->state == State::kMraReqReceived) return connection;
  return connection->remote_id == rej.local_comm_id ? connection : nullptr;
}

void Endpoint::handle(const Received& in, const wire::CmRej& rej) {
  Connection* connection = rejected_connection(in, rej);
  if (connection == nullptr) {
    ++counters_.unmatched;
    return;
  }
  const auto tell_rejected = [&] {
    tell(*connection,
         Rejected{.reason = rej.reason,
                  .was_established = connection->state == State::kEstablished,
                  .info = rej.info,
                  .info_length = rej.info_length},
         PrivateData(rej.private_data));
  };
  switch (connection->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kMraRepReceived:
      tell_rejected();
      // The peer still has state of an earlier connection: wait until that has expired.
      if (rej.reason == wire::RejectReason::kStaleConnection) {
        enter_timewait(in.now, *connection);
      } else if (connection->active) {
        become_idle(*connection);
      } else {
        // A duplicate of the REQ may still be in flight and must not be taken for a new one.
        connection->last_sent.reset();
        become_rejected(in.now, *connection);
      }
      break;
    case State::kRepReceived:
    case State::kMraRepSent:
    case State::kEstablished:
      if (std::exchange(connection->asks, std::uint8_t{0}) != 0) {
        tell(*connection, Disconnected{DisconnectCause::kNoAnswer});
      } else {
        tell_rejected();
      }
      enter_timewait(in.now, *connection);
      break;
    case State::kDreqSent:
      tell(*connection, Disconnected{DisconnectCause::kPeerAnswered});
      enter_timewait(in.now, *connection);
      break;
    default: count_duplicate(in); break;
  }
}

Result<void, Error> Endpoint::disconnect(Instant now, ConnectionId id, Octets private_data) {
  Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  switch (connection->state) {
    case State::kEstablished:
      if (private_data.size() > wire::kDreqPrivateOctets) return Failure{Error::kPrivateDataTooLong};
      send_dreq(now, *connection, private_data);
      return {};
    case State::kDreqReceived:
      if (private_data.size() > wire::kDrepPrivateOctets) return Failure{Error::kPrivateDataTooLong};
      send_drep(now, *connection, private_data);
      return {};
    default: return Failure{Error::kWrongState};
  }
}

void Endpoint::send_dreq(Instant now, Connection& connection, Octets private_data) {
  wire::CmDreq dreq{.local_comm_id = connection.id,
                    .remote_comm_id = connection.remote_id,
                    .remote_qpn = connection.remote_qpn};
  place_octets(private_data, dreq.private_data);
  connection.state = State::kDreqSent;
  send(connection, new_transaction_id(connection), dreq);
  await_answer(now, connection, connection.response_timeout, settings_.first_retry);
}

void Endpoint::send_drep(Instant now, Connection& connection, Octets private_data) {
  wire::CmDrep drep{.local_comm_id = connection.id, .remote_comm_id = connection.remote_id};
  place_octets(private_data, drep.private_data);
  send(connection, connection.transaction_id, drep);
  enter_timewait(now, connection);
}

void Endpoint::handle(const Received& in, const wire::CmDreq& dreq) {
  if (is_foreign(in, dreq.remote_comm_id)) return;
  Connection* connection = table_.find(dreq.remote_comm_id);
  if (connection == nullptr || connection->remote_id != dreq.local_comm_id) {
    // The connection is long gone. Answer anyway, or the peer would repeat its DREQ for a minute.
    count_duplicate(in);
    answer_dreq(in, dreq);
    return;
  }
  switch (connection->state) {
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kEstablished:
    case State::kDreqSent: break;
    case State::kTimeWait:
    case State::kRejected:
    case State::kIdle:
      count_duplicate(in);
      answer_dreq(in, dreq);
      return;
    default: count_duplicate(in); return;
  }
  if (connection->local_qpn != dreq.remote_qpn) {
    ++counters_.unmatched;
    return;
  }
  const bool asked_too = connection->state == State::kDreqSent;
  timers_.cancel(*connection);
  leave_listener(*connection);
  connection->transaction_id = in.mad.transaction_id;
  connection->state = State::kDreqReceived;
  tell(*connection, Disconnected{asked_too ? DisconnectCause::kPeerAnswered : DisconnectCause::kPeerAsked},
       PrivateData(dreq.private_data));
  // We sent a DREQ, too, so no decision of the owner, which may be gone, is needed.
  if (asked_too) send_drep(in.now, *connection, {});
}

void Endpoint::answer_dreq(const Received& in, const wire::CmDreq& dreq) {
  answer(in, wire::CmDrep{.local_comm_id = dreq.remote_comm_id, .remote_comm_id = dreq.local_comm_id});
}

void Endpoint::handle(const Received& in, const wire::CmDrep& drep) {
  if (is_foreign(in, drep.remote_comm_id)) return;
  Connection* connection = table_.find(drep.remote_comm_id);
  if (connection == nullptr || connection->remote_id != drep.local_comm_id) {
    ++counters_.unmatched;
    return;
  }
  if (connection->state != State::kDreqSent) {
    count_duplicate(in);
    return;
  }
  tell(*connection, Disconnected{DisconnectCause::kPeerAnswered}, PrivateData(drep.private_data));
  enter_timewait(in.now, *connection);
}

// IBTA 12.9.8.3.1: a REQ from the queue pair of an established connection means that the peer has lost that
// connection. Anybody can send such a REQ in the peer's name, and needs only a QPN for it. So ask the peer
// first: repeat the REP. A peer that knows the connection answers with RTU, and an RRDMA that does not
// answers with REJ. Disconnect only if the peer does not answer. The active side has no such question: it
// refuses the REQ and leaves the rest to the transport.
void Endpoint::doubt(Instant now, Connection& connection) {
  if (connection.state != State::kEstablished || connection.active || connection.asks != 0) return;
  ask_peer(now, connection);
}

void Endpoint::ask_peer(Instant now, Connection& connection) {
  if (connection.asks == kAsksMax) {
    connection.asks = 0;
    send_dreq(now, connection, {});
    return;
  }
  ++connection.asks;
  queue_mad(connection.route,
            wire::emit_cm_mad({.transaction_id = connection.transaction_id,
                               .message = wire::CmRep{.local_comm_id = connection.id,
                                                      .remote_comm_id = connection.remote_id,
                                                      .local_qpn = connection.local_qpn,
                                                      .starting_psn = connection.receive_psn,
                                                      .responder_resources = connection.responder_resources,
                                                      .initiator_depth = connection.initiator_depth,
                                                      .rnr_retry_count = connection.rnr_retry_count,
                                                      .local_ca_guid = connection.local_ca_guid}}));
  timers_.set(connection, now + connection.response_timeout);
}

// Keeps the REJ for duplicates of the message that it answered. If the peer already considers the connection
// established, it repeats nothing, so a REJ that revokes a REP is repeated by a timer instead.
void Endpoint::become_rejected(Instant now, Connection& connection) {
  const bool took_back = (connection.state == State::kRepSent && !may_be_forged(connection)) ||
                         connection.state == State::kMraRepReceived;
  // After an MRA, the peer repeats its message only when the requested time has passed.
  const Duration linger = settings_.linger + connection.time_asked_for * 3;
  connection.state = State::kRejected;
  connection.retry_interval = linger;
  if (took_back && connection.last_sent.has_value()) {
    const Duration first =
        settings_.first_retry.ns != 0 ? settings_.first_retry : connection.response_timeout;
    connection.retry_interval = std::min(first, linger);
  }
  connection.retry_interval_max = linger;
  connection.give_up_at = now + linger;
  leave_listener(connection);
  table_.unfile(RemoteKind::kQpn, connection);
  timers_.set(connection, now + connection.retry_interval);
  if (!connection.owned) bury(connection);
}

// Keeps the communication ID, so that an old message is not taken for a new one; the queue pairs are free.
void Endpoint::enter_timewait(Instant now, Connection& connection) {
  connection.state = State::kTimeWait;
  leave_listener(connection);
  const auto wanted =
      timewait_length_ ? timewait_length_(connection.owner, connection.route.remote) : std::nullopt;
  if (!wanted) table_.unfile(RemoteKind::kQpn, connection);
  const Duration usual = time_of_code(std::min(connection.ack_timeout, settings_.timewait_code_max));
  timers_.set(connection, now + wanted.value_or(usual));
  if (!connection.owned) bury(connection);
}

void Endpoint::become_idle(Connection& connection) {
  connection.state = State::kIdle;
  timers_.cancel(connection);
  leave_listener(connection);
  for (const auto kind : {RemoteKind::kCommId, RemoteKind::kQpn, RemoteKind::kLookup}) {
    table_.unfile(kind, connection);
  }
  if (!connection.owned) erase(connection);
}

void Endpoint::destroy(Instant now, ConnectionId id) {
  if (Connection* connection = owned(id)) destroy(now, *connection);
}

void Endpoint::destroy(Instant now, Connection& connection) {
  connection.owned = false;
  switch (connection.state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      send_timeout_rej(connection);
      become_idle(connection);
      break;
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kRepReceived:
    case State::kMraRepSent:
      send_rej(connection, {});
      become_rejected(now, connection);
      break;
    case State::kEstablished:
      if (connection.qp_type == QpType::kXrcTarget) {
        // The queue pair is shared and outlives the owner that accepted the connection.
        enter_timewait(now, connection);
      } else {
        send_dreq(now, connection, {});
      }
      break;
    case State::kDreqReceived: send_drep(now, connection, {}); break;
    case State::kSidrReqReceived:
      send_sidr_rep(now, connection, {.status = wire::SidrStatus::kRejected});
      break;
    case State::kDreqSent: break;
    case State::kTimeWait:
    case State::kRejected:
    case State::kSidrReplied: bury(connection); break;
    case State::kSidrReqSent:
    case State::kIdle: become_idle(connection); break;
  }
}

// The adapter's GUID lets the peer find the connection even if it does not know our ID. IBTA table 108.
void Endpoint::send_timeout_rej(Connection& connection) {
  std::array<std::uint8_t, 8> guid{};
  store_be64(guid.data(), connection.local_ca_guid);
  send_rej(connection, {.reason = wire::RejectReason::kTimeout, .info = guid});
}

void Endpoint::bury(Connection& connection) {
  RRDMA_ASSERT(!connection.owned);
  if (connection.tombstone_hook.linked()) return;
  if (tombstone_count_ >= settings_.tombstones_max && !tombstone_list_.empty()) {
    ++counters_.tombstones_evicted;
    erase(tombstone_list_.front());
  }
  tombstone_list_.push_back(connection);
  ++tombstone_count_;
}

void Endpoint::erase(Connection& connection) {
  timers_.cancel(connection);
  leave_listener(connection);
  if (connection.tombstone_hook.linked()) {
    connection.tombstone_hook.unlink();
    --tombstone_count_;
  }
  table_.destroy(connection);
}

}  // namespace rrdma::cm
