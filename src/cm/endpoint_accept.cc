// Listeners and the passive side: REQ in, REP out, RTU in.
#include <algorithm>

#include "base/assert.h"
#include "cm/endpoint.h"
#include "cm/private_octets.h"

namespace rrdma::cm {

using wire::CmMessageKind;
namespace {

constexpr std::uint8_t kFailoverNotSupported = 1;

// The type of queue pair that answers this REQ; empty if there is none.
std::optional<QpType> answering_type(const wire::CmReq& req) {
  switch (req.transport) {
    case wire::CmTransport::kReliable: return QpType::kReliable;
    case wire::CmTransport::kUnreliable: return QpType::kUnreliable;
    case wire::CmTransport::kReliableDatagram: return std::nullopt;
    case wire::CmTransport::kExtended:
      if (req.extended_transport == wire::kCmExtendedTransportXrc) return QpType::kXrcTarget;
      return std::nullopt;
  }
  return std::nullopt;
}

// Whether `req` repeats the request that created the connection.
bool repeats(const Connection& connection, const wire::CmReq& req) {
  return !connection.active && connection.remote_qpn == req.local_qpn &&
         connection.send_psn == req.starting_psn && connection.service_id == req.service_id;
}

ConnectRequest request_of(const Connection& connection, const wire::CmReq& req, std::uint32_t ece_options) {
  return {.listener = connection.listener->id,
          .listener_owner = connection.listener->parameters.owner,
          .route = connection.route,
          .service_id = req.service_id,
          .ip = ip_header_of(req),
          .remote_ca_guid = req.local_ca_guid,
          .qp_type = connection.qp_type,
          .remote_qpn = req.local_qpn,
          .remote_qkey = req.local_qkey,
          .remote_psn = req.starting_psn,
          .path_mtu = req.path_mtu,
          .responder_resources = req.initiator_depth,
          .initiator_depth = req.responder_resources,
          .retry_count = req.retry_count,
          .rnr_retry_count = req.rnr_retry_count,
          .flow_control = req.end_to_end_flow_control,
          .srq = req.srq,
          .ece = {.vendor_id = req.vendor_id, .options = ece_options}};
}

wire::CmRep rep_of(const AcceptParameters& p, const Connection& connection, std::uint8_t ack_delay) {
  wire::CmRep rep{.local_comm_id = connection.id,
                  .remote_comm_id = connection.remote_id,
                  .vendor_id = p.ece.vendor_id & wire::kMask24,
                  .starting_psn = p.starting_psn,
                  .responder_resources = p.responder_resources,
                  .target_ack_delay = std::min(ack_delay, kTimeCodeMax),
                  .rnr_retry_count = std::min(p.rnr_retry_count, wire::kRetryCountMax),
                  .local_ca_guid = connection.local_ca_guid};
  if (connection.alternate_path_asked) rep.failover_accepted = kFailoverNotSupported;
  if (connection.qp_type == QpType::kXrcTarget) {
    rep.local_eecn = p.qpn.value;
    rep.srq = true;
  } else {
    rep.local_qpn = p.qpn;
    rep.initiator_depth = p.initiator_depth;
    rep.end_to_end_flow_control = p.flow_control;
    rep.srq = p.srq;
  }
  place_octets(p.private_data.view(), rep.private_data);
  return rep;
}

}  // namespace

Result<ListenerId, Error> Endpoint::listen(const ListenParameters& parameters) {
  ListenParameters bounded = parameters;
  if (bounded.backlog == 0 || bounded.backlog > settings_.backlog_max)
    bounded.backlog = settings_.backlog_max;
  return listeners_.create(bounded, settings_.listeners_max);
}

Result<void, Error> Endpoint::stop_listening(Instant now, ListenerId id) {
  Listener* listener = listeners_.find(id);
  if (listener == nullptr) return Failure{Error::kUnknownListener};
  while (!listener->unanswered_list.empty()) {
    Connection& connection = listener->unanswered_list.front();
    leave_listener(connection);
    if (!connection.announced) destroy(now, connection);
  }
  while (!listener->half_open_list.empty()) leave_listener(listener->half_open_list.front());
  listeners_.destroy(*listener);
  return {};
}

void Endpoint::handle(const Received& in, const wire::CmReq& req) {
  if (Connection* known =
          table_.find_remote(RemoteKind::kCommId, in.addresses.remote, req.local_comm_id.value)) {
    if (repeats(*known, req)) return handle_duplicate_req(in, *known);
    if (!give_up_comm_id(in, req, *known)) return;
  }
  if (const auto reason = judge_req(in, req)) return refuse_req(in, req, *reason);
  if (Connection* old = table_.find_remote(RemoteKind::kQpn, in.addresses.remote, req.local_qpn.value)) {
    doubt(in.now, *old);
    return refuse_req(in, req, wire::RejectReason::kStaleConnection);
  }
  Listener* listener = listeners_.match(req.service_id, ip_header_of(req));
  if (listener == nullptr) return refuse_req(in, req, wire::RejectReason::kInvalidServiceId);
  if (!has_room(*listener) || !make_room()) {
    ++counters_.overflowed;
    if (listener->parameters.reject_overflow) refuse_req(in, req, wire::RejectReason::kNoResources);
    return;
  }
  const Connection& connection = admit_req(in, req, *listener);
  tell(connection, request_of(connection, req, in.mad.attribute_modifier), PrivateData(req.private_data));
}

// A restarted host does not know the IDs that it assigned before, and may reuse one. A closed connection is
// kept only for duplicates and makes room. An established one is dead at the peer (IBTA 12.9.8.3.1). If the
// connection is still being set up, returns false: the caller repeats its REQ until that has ended.
bool Endpoint::give_up_comm_id(const Received& in, const wire::CmReq& req, Connection& known) {
  switch (known.state) {
    case State::kRejected:
    case State::kTimeWait: table_.unfile(RemoteKind::kCommId, known); return true;
    case State::kEstablished:
    case State::kDreqSent:
    case State::kDreqReceived:
      doubt(in.now, known);
      refuse_req(in, req, wire::RejectReason::kStaleConnection);
      return false;
    default: return false;
  }
}

// The peer did not receive our answer, or our owner has not answered yet.
void Endpoint::handle_duplicate_req(const Received& in, Connection& connection) {
  count_duplicate(in);
  switch (connection.state) {
    case State::kReqReceived:
    case State::kMraReqSent: send_mra_now(connection, settings_.mra_code, {}); break;
    case State::kRepSent:
    case State::kMraRepReceived: send_again(in.now, connection); break;
    case State::kRejected: repeat_rejection(connection); break;
    case State::kTimeWait:
      // A delayed REQ of a connection that has already ended.
      answer(in, wire::CmRej{.local_comm_id = connection.id,
                             .remote_comm_id = connection.remote_id,
                             .kind = CmMessageKind::kReq,
                             .reason = wire::RejectReason::kStaleConnection});
      break;
    default: break;
  }
}

std::optional<wire::RejectReason> Endpoint::judge_req(const Received& in, const wire::CmReq& req) const {
  using wire::RejectReason;
  if (req.local_comm_id.value == 0) return RejectReason::kInvalidCommId;
  if (!answering_type(req).has_value()) return RejectReason::kInvalidTransportType;
  if (req.path_mtu == 0 || req.path_mtu > kPathMtuMax) return RejectReason::kInvalidPathMtu;
  // The queue pair would send to the GID in the message, so it must be the caller's own.
  if (req.primary.local_gid != in.addresses.remote) return RejectReason::kInvalidGid;
  if (req.primary.remote_gid != in.addresses.local) return RejectReason::kInvalidGid;
  return std::nullopt;
}

void Endpoint::refuse_req(const Received& in, const wire::CmReq& req, wire::RejectReason reason) {
  ++counters_.refused;
  wire::CmRej rej{.remote_comm_id = req.local_comm_id, .kind = CmMessageKind::kReq, .reason = reason};
  if (reason == wire::RejectReason::kInvalidGid) {
    // IBTA table 108: the correct GID.
    rej.info_length = static_cast<std::uint8_t>(in.addresses.local.octets.size());
    place_octets(in.addresses.local.octets, rej.info);
  }
  answer(in, rej);
}

Connection& Endpoint::admit_req(const Received& in, const wire::CmReq& req, Listener& listener) {
  Connection& connection = table_.create();
  connection.state = State::kReqReceived;
  connection.owner = listener.parameters.owner;
  connection.announced = false;
  connection.remote_id = req.local_comm_id;
  connection.transaction_id = in.mad.transaction_id;
  connection.route = {.local = in.addresses.local,
                      .remote = in.addresses.remote,
                      .interface_index = in.addresses.interface_index,
                      .flow_label = req.primary.flow_label,
                      .traffic_class = req.primary.traffic_class,
                      .service_level = req.primary.service_level,
                      .partition_key = req.partition_key};
  connection.service_id = req.service_id;
  connection.local_ca_guid = settings_.ca_guid;
  connection.qp_type = *answering_type(req);
  connection.remote_qpn = req.local_qpn;
  connection.send_psn = req.starting_psn;
  connection.path_mtu = req.path_mtu;
  connection.responder_resources = req.initiator_depth;
  connection.initiator_depth = req.responder_resources;
  connection.retry_count = req.retry_count;
  connection.rnr_retry_count = req.rnr_retry_count;
  connection.ack_timeout = std::max<std::uint8_t>(req.primary.local_ack_timeout, 1);
  connection.alternate_path_asked = !req.alternate.local_gid.is_zero() || req.alternate.local_lid != 0;
  connection.response_timeout =
      time_of_code(std::min(req.local_cm_response_timeout, settings_.response_code_max));
  connection.max_cm_retries = req.max_cm_retries;
  table_.file(RemoteKind::kCommId, connection);
  table_.file(RemoteKind::kQpn, connection);
  count_unanswered(connection, listener);
  return connection;
}

Result<void, Error> Endpoint::accept(Instant now, ConnectionId id, const AcceptParameters& p) {
  Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  if (connection->state != State::kReqReceived && connection->state != State::kMraReqSent) {
    return Failure{Error::kWrongState};
  }
  if (p.private_data.size() > wire::kRepPrivateOctets) return Failure{Error::kPrivateDataTooLong};
  if (p.local_ca_guid != 0) connection->local_ca_guid = p.local_ca_guid;
  connection->state = State::kRepSent;
  connection->local_qpn = p.qpn;
  connection->receive_psn = p.starting_psn;
  connection->responder_resources = p.responder_resources;
  connection->initiator_depth = p.initiator_depth;
  count_half_open(*connection);
  send(*connection, connection->transaction_id, rep_of(p, *connection, settings_.ca_ack_delay),
       p.ece.options);
  await_answer(now, *connection, connection->response_timeout, settings_.first_retry);
  return {};
}

void Endpoint::handle(const Received& in, const wire::CmRtu& rtu) {
  if (is_foreign(in, rtu.remote_comm_id)) return;
  Connection* connection = table_.find(rtu.remote_comm_id);
  if (connection == nullptr || connection->remote_id != rtu.local_comm_id) {
    ++counters_.unmatched;
    return;
  }
  switch (connection->state) {
    case State::kRepSent:
    case State::kMraRepReceived:
      note_peer(in.addresses.remote);
      become_established(*connection, PrivateData(rtu.private_data));
      break;
    case State::kRejected:
      // Our REJ was lost, and the peer considers the connection established.
      repeat_rejection(*connection);
      break;
    case State::kEstablished:
      count_duplicate(in);
      if (connection->asks == 0) break;
      connection->asks = 0;
      timers_.cancel(*connection);
      break;
    default: count_duplicate(in); break;
  }
}

Result<void, Error> Endpoint::notify_established(ConnectionId id) {
  Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  if (connection->state == State::kEstablished) return Failure{Error::kAlreadyEstablished};
  if (connection->state != State::kRepSent && connection->state != State::kMraRepReceived) {
    return Failure{Error::kWrongState};
  }
  become_established(*connection, {});
  return {};
}

void Endpoint::become_established(Connection& connection, const PrivateData& private_data) {
  connection.state = State::kEstablished;
  timers_.cancel(connection);
  leave_listener(connection);
  tell(connection, Established{}, private_data);
}

bool Endpoint::has_room(const Listener& listener) const {
  return listener.unanswered < listener.parameters.backlog && listener.half_open < settings_.half_open_max;
}

void Endpoint::count_unanswered(Connection& connection, Listener& listener) {
  RRDMA_ASSERT(connection.listener == nullptr);
  connection.listener = &listener;
  listener.unanswered_list.push_back(connection);
  ++listener.unanswered;
}

void Endpoint::count_half_open(Connection& connection) {
  Listener* listener = connection.listener;
  if (listener == nullptr) return;
  connection.listener_hook.unlink();
  --listener->unanswered;
  listener->half_open_list.push_back(connection);
  ++listener->half_open;
  connection.half_open = true;
}

void Endpoint::leave_listener(Connection& connection) {
  if (connection.listener == nullptr) return;
  connection.listener_hook.unlink();
  --(connection.half_open ? connection.listener->half_open : connection.listener->unanswered);
  connection.listener = nullptr;
  connection.half_open = false;
}

}  // namespace rrdma::cm
