// The active side: REQ out, REP in, RTU out; and MRA, which both sides send and honour.
#include <algorithm>

#include "cm/endpoint.h"
#include "cm/private_octets.h"

namespace rrdma::cm {

using wire::CmMessageKind;
namespace {

constexpr std::uint8_t kCmRetriesMax = 15;
constexpr std::uint16_t kPermissiveLid = 0xffff;
constexpr std::uint32_t kFlowLabelMask = 0xfffff;
constexpr std::uint8_t kServiceLevelMask = 0xf;

wire::CmPath path_of(const Route& route, std::uint8_t local_ack_timeout) {
  return {.local_lid = kPermissiveLid,
          .remote_lid = kPermissiveLid,
          .local_gid = route.local,
          .remote_gid = route.remote,
          .flow_label = route.flow_label & kFlowLabelMask,
          .traffic_class = route.traffic_class,
          .hop_limit = route.hop_limit,
          .service_level = static_cast<std::uint8_t>(route.service_level & kServiceLevelMask),
          .local_ack_timeout = local_ack_timeout};
}

wire::CmTransport transport_of(QpType type) {
  switch (type) {
    case QpType::kReliable: return wire::CmTransport::kReliable;
    case QpType::kUnreliable: return wire::CmTransport::kUnreliable;
    case QpType::kXrcInitiator:
    case QpType::kXrcTarget: return wire::CmTransport::kExtended;
  }
  return wire::CmTransport::kReliable;
}

wire::CmReq req_of(const ConnectParameters& p, const Connection& connection, std::uint8_t ack_delay) {
  wire::CmReq req{.local_comm_id = connection.id,
                  .vendor_id = p.ece.vendor_id & wire::kMask24,
                  .service_id = p.service_id,
                  .local_ca_guid = connection.local_ca_guid,
                  .local_qpn = p.qpn,
                  .initiator_depth = p.initiator_depth,
                  .remote_cm_response_timeout = std::min(p.remote_response_code, kTimeCodeMax),
                  .transport = transport_of(p.qp_type),
                  .end_to_end_flow_control = p.flow_control,
                  .starting_psn = p.starting_psn,
                  .local_cm_response_timeout = std::min(p.local_response_code, kTimeCodeMax),
                  .partition_key = p.route.partition_key,
                  .path_mtu = p.path_mtu,
                  .max_cm_retries = connection.max_cm_retries,
                  .primary = path_of(p.route, ack_timeout_code(ack_delay, p.packet_lifetime))};
  if (p.qp_type == QpType::kXrcInitiator) {
    // An initiator serves no requests, and the target chooses its own retry counts.
    req.extended_transport = wire::kCmExtendedTransportXrc;
  } else {
    req.responder_resources = p.responder_resources;
    req.retry_count = std::min(p.retry_count, wire::kRetryCountMax);
    req.rnr_retry_count = std::min(p.rnr_retry_count, wire::kRetryCountMax);
    req.srq = p.srq;
  }
  if (p.ip.has_value()) wire::emit_ip_cm_header(*p.ip, req.private_data);
  place_octets(p.private_data.view(), req.private_data, p.ip.has_value() ? wire::kIpCmHeaderOctets : 0);
  return req;
}

}  // namespace

Result<ConnectionId, Error> Endpoint::connect(Instant now, const ConnectParameters& p) {
  const std::size_t room = wire::kReqPrivateOctets - (p.ip.has_value() ? wire::kIpCmHeaderOctets : 0);
  if (p.private_data.size() > room) return Failure{Error::kPrivateDataTooLong};
  if (p.path_mtu == 0 || p.path_mtu > kPathMtuMax) return Failure{Error::kInvalidPathMtu};
  if (p.qp_type == QpType::kXrcTarget) return Failure{Error::kInvalidQpType};
  if (!make_room()) return Failure{Error::kTooManyConnections};

  Connection& connection = table_.create();
  connection.owner = p.owner;
  connection.active = true;
  connection.transaction_id = new_transaction_id(connection);
  connection.route = p.route;
  connection.service_id = p.service_id;
  connection.local_ca_guid = p.local_ca_guid != 0 ? p.local_ca_guid : settings_.ca_guid;
  connection.qp_type = p.qp_type;
  connection.local_qpn = p.qpn;
  connection.receive_psn = p.starting_psn;
  connection.path_mtu = p.path_mtu;
  connection.responder_resources = p.responder_resources;
  connection.initiator_depth = p.initiator_depth;
  connection.retry_count = std::min(p.retry_count, wire::kRetryCountMax);
  connection.rnr_retry_count = std::min(p.rnr_retry_count, wire::kRetryCountMax);
  connection.ack_timeout = static_cast<std::uint8_t>(std::min<int>(kTimeCodeMax, p.packet_lifetime + 1));
  connection.response_timeout = time_of_code(p.packet_lifetime) * 2 + time_of_code(p.remote_response_code);
  connection.max_cm_retries = std::min(p.max_cm_retries, kCmRetriesMax);
  connection.state = State::kReqSent;
  send(connection, connection.transaction_id, req_of(p, connection, settings_.ca_ack_delay), p.ece.options);
  await_answer(now, connection, connection.response_timeout, settings_.first_retry);
  return connection.id;
}

void Endpoint::handle(const Received& in, const wire::CmRep& rep) {
  if (is_foreign(in, rep.remote_comm_id)) return;
  Connection* connection = table_.find(rep.remote_comm_id);
  if (connection == nullptr || !connection->active) {
    // Given up or never requested: tell the peer, or it would repeat its REP for a minute.
    ++counters_.unmatched;
    refuse_rep(in, rep, wire::RejectReason::kInvalidCommId);
    return;
  }
  if (connection->state == State::kReqSent || connection->state == State::kMraReqReceived) {
    note_peer(in.addresses.remote);
    take_rep(in, *connection, rep);
    return;
  }
  if (connection->state == State::kIdle || connection->state == State::kTimeWait) {
    ++counters_.unmatched;
    refuse_rep(in, rep, wire::RejectReason::kInvalidCommId);
    return;
  }
  if (connection->remote_id != rep.local_comm_id) {
    ++counters_.unmatched;
    return;
  }
  count_duplicate(in);
  switch (connection->state) {
    case State::kRepReceived:
    case State::kMraRepSent: send_mra_now(*connection, settings_.mra_code, {}); break;
    case State::kEstablished: repeat_rtu(*connection); break;
    case State::kRejected: repeat_rejection(*connection); break;
    default: break;
  }
}

void Endpoint::take_rep(const Received& in, Connection& connection, const wire::CmRep& rep) {
  const wire::Qpn remote_qpn =
      connection.qp_type == QpType::kXrcInitiator ? wire::Qpn(rep.local_eecn) : rep.local_qpn;
  if (Connection* old = table_.find_remote(RemoteKind::kQpn, connection.route.remote, remote_qpn.value)) {
    doubt(in.now, *old);
    refuse_stale_rep(in, connection, rep);
    return;
  }
  // The peer uses one ID for two connections: it is confused, or not the host that it claims to be.
  if (table_.find_remote(RemoteKind::kCommId, connection.route.remote, rep.local_comm_id.value) != nullptr) {
    ++counters_.unmatched;
    return;
  }
  connection.state = State::kRepReceived;
  connection.remote_id = rep.local_comm_id;
  connection.remote_qpn = remote_qpn;
  connection.initiator_depth = rep.responder_resources;
  connection.responder_resources = rep.initiator_depth;
  connection.send_psn = rep.starting_psn;
  connection.rnr_retry_count = rep.rnr_retry_count;
  connection.ack_timeout =
      ack_timeout_code(rep.target_ack_delay, static_cast<std::uint8_t>(connection.ack_timeout - 1));
  table_.file(RemoteKind::kCommId, connection);
  table_.file(RemoteKind::kQpn, connection);
  timers_.cancel(connection);
  tell(connection,
       ConnectReply{.remote_ca_guid = rep.local_ca_guid,
                    .remote_qpn = remote_qpn,
                    .remote_qkey = rep.local_qkey,
                    .remote_psn = rep.starting_psn,
                    .responder_resources = rep.initiator_depth,
                    .initiator_depth = rep.responder_resources,
                    .target_ack_delay = rep.target_ack_delay,
                    .rnr_retry_count = rep.rnr_retry_count,
                    .flow_control = rep.end_to_end_flow_control,
                    .srq = rep.srq,
                    .ece = {.vendor_id = rep.vendor_id, .options = in.mad.attribute_modifier}},
       PrivateData(rep.private_data));
}

// IBTA 12.9.8.3.1: the peer's queue pair belongs to a connection that is still established here.
void Endpoint::refuse_stale_rep(const Received& in, Connection& connection, const wire::CmRep& rep) {
  refuse_rep(in, rep, wire::RejectReason::kStaleConnection);
  tell(connection, Rejected{.reason = wire::RejectReason::kStaleConnection});
  become_idle(connection);
}

void Endpoint::refuse_rep(const Received& in, const wire::CmRep& rep, wire::RejectReason reason) {
  answer(in, wire::CmRej{.local_comm_id = rep.remote_comm_id,
                         .remote_comm_id = rep.local_comm_id,
                         .kind = CmMessageKind::kRep,
                         .reason = reason});
}

Result<void, Error> Endpoint::send_rtu(ConnectionId id, Octets private_data) {
  Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  if (connection->state != State::kRepReceived && connection->state != State::kMraRepSent) {
    return Failure{Error::kWrongState};
  }
  wire::CmRtu rtu{.local_comm_id = connection->id, .remote_comm_id = connection->remote_id};
  if (private_data.size() > rtu.private_data.size()) return Failure{Error::kPrivateDataTooLong};
  place_octets(private_data, rtu.private_data);
  connection->state = State::kEstablished;
  send(*connection, connection->transaction_id, rtu);
  return {};
}

void Endpoint::repeat_rtu(Connection& connection) {
  // After restore() the first RTU is not available. Only its private data is lost.
  if (!connection.last_sent.has_value()) {
    send(connection, connection.transaction_id,
         wire::CmRtu{.local_comm_id = connection.id, .remote_comm_id = connection.remote_id});
    return;
  }
  resend(connection);
}

Result<void, Error> Endpoint::send_mra(ConnectionId id, std::uint8_t service_timeout, Octets private_data) {
  Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  if (connection->state != State::kReqReceived && connection->state != State::kRepReceived) {
    return Failure{Error::kWrongState};
  }
  if (private_data.size() > wire::kMraPrivateOctets) return Failure{Error::kPrivateDataTooLong};
  send_mra_now(*connection, std::min(service_timeout, kTimeCodeMax), private_data);
  return {};
}

void Endpoint::send_mra_now(Connection& connection, std::uint8_t service_timeout, Octets private_data) {
  // Already sent: the duplicate gets the same answer.
  if (connection.state == State::kMraReqSent || connection.state == State::kMraRepSent) {
    resend(connection);
    return;
  }
  const bool about_req = connection.state == State::kReqReceived;
  connection.time_asked_for = time_of_code(std::min(service_timeout, settings_.response_code_max));
  connection.state = about_req ? State::kMraReqSent : State::kMraRepSent;
  wire::CmMra mra{.local_comm_id = connection.id,
                  .remote_comm_id = connection.remote_id,
                  .kind = about_req ? CmMessageKind::kReq : CmMessageKind::kRep,
                  .service_timeout = service_timeout};
  place_octets(private_data, mra.private_data);
  send(connection, connection.transaction_id, mra);
}

void Endpoint::handle(const Received& in, const wire::CmMra& mra) {
  if (is_foreign(in, mra.remote_comm_id)) return;
  Connection* connection = table_.find(mra.remote_comm_id);
  if (connection == nullptr) {
    ++counters_.unmatched;
    return;
  }
  const bool about_req = mra.kind == CmMessageKind::kReq && connection->state == State::kReqSent;
  const bool about_rep = mra.kind == CmMessageKind::kRep && connection->state == State::kRepSent &&
                         connection->remote_id == mra.local_comm_id;
  if (!about_req && !about_rep) {
    // Only the first MRA counts: a peer cannot postpone its answer forever.
    count_duplicate(in);
    return;
  }
  connection->state = about_req ? State::kMraReqReceived : State::kMraRepReceived;
  const Duration nominal = time_of_code(mra.service_timeout) + time_of_code(connection->ack_timeout);
  const Duration first = settings_.first_retry.ns == 0 ? Duration{} : settings_.first_retry_after_mra;
  await_answer(in.now, *connection, nominal, first);
}

}  // namespace rrdma::cm
