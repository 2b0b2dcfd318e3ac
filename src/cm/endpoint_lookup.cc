// Lookups of a UD service by its ID (SIDR, IBTA 12.11): one request, one reply, no connection.
#include <algorithm>

#include "cm/endpoint.h"
#include "cm/private_octets.h"

namespace rrdma::cm {
Result<ConnectionId, Error> Endpoint::look_up(Instant now, const LookupParameters& p) {
  const std::size_t room = wire::kSidrReqPrivateOctets - (p.ip.has_value() ? wire::kIpCmHeaderOctets : 0);
  if (p.private_data.size() > room) return Failure{Error::kPrivateDataTooLong};
  if (!make_room()) return Failure{Error::kTooManyConnections};
  Connection& connection = table_.create();
  connection.owner = p.owner;
  connection.active = true;
  connection.transaction_id = new_transaction_id(connection);
  connection.route = p.route;
  connection.service_id = p.service_id;
  connection.response_timeout = p.timeout;
  connection.max_cm_retries = p.max_cm_retries;
  connection.state = State::kSidrReqSent;
  wire::CmSidrReq req{
      .request_id = connection.id, .partition_key = p.route.partition_key, .service_id = p.service_id};
  if (p.ip.has_value()) wire::emit_ip_cm_header(*p.ip, req.private_data);
  place_octets(p.private_data.view(), req.private_data, p.ip.has_value() ? wire::kIpCmHeaderOctets : 0);
  send(connection, connection.transaction_id, req);
  await_answer(now, connection, connection.response_timeout, settings_.first_retry);
  return connection.id;
}

void Endpoint::handle(const Received& in, const wire::CmSidrReq& req) {
  if (const Connection* known =
          table_.find_remote(RemoteKind::kLookup, in.addresses.remote, req.request_id.value)) {
    count_duplicate(in);
    if (known->state == State::kSidrReplied) resend(*known);
    return;
  }
  Listener* listener = listeners_.match(req.service_id, ip_header_of(req));
  if (listener == nullptr) return refuse_lookup(in, req, wire::SidrStatus::kServiceNotSupported);
  if (!has_room(*listener) || !make_room()) {
    ++counters_.overflowed;
    if (listener->parameters.reject_overflow) refuse_lookup(in, req, wire::SidrStatus::kNoQp);
    return;
  }
  Connection& connection = table_.create();
  connection.state = State::kSidrReqReceived;
  connection.owner = listener->parameters.owner;
  connection.announced = false;
  connection.remote_id = req.request_id;
  connection.transaction_id = in.mad.transaction_id;
  connection.route = {.local = in.addresses.local,
                      .remote = in.addresses.remote,
                      .interface_index = in.addresses.interface_index,
                      .partition_key = req.partition_key};
  connection.service_id = req.service_id;
  table_.file(RemoteKind::kLookup, connection);
  count_unanswered(connection, *listener);
  tell(connection,
       LookupRequest{.listener = listener->id,
                     .listener_owner = listener->parameters.owner,
                     .route = connection.route,
                     .service_id = req.service_id,
                     .ip = ip_header_of(req)},
       PrivateData(req.private_data));
}

void Endpoint::refuse_lookup(const Received& in, const wire::CmSidrReq& req, wire::SidrStatus status) {
  ++counters_.refused;
  answer(in, wire::CmSidrRep{.request_id = req.request_id, .status = status, .service_id = req.service_id});
}

Result<void, Error> Endpoint::reply_lookup(Instant now, ConnectionId id, const LookupReplyParameters& p) {
  Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  if (connection->state != State::kSidrReqReceived) return Failure{Error::kWrongState};
  if (p.private_data.size() > wire::kSidrRepPrivateOctets) return Failure{Error::kPrivateDataTooLong};
  if (p.info.size() > wire::kAdditionalInfoOctets) return Failure{Error::kInfoTooLong};
  send_sidr_rep(now, *connection, p);
  return {};
}

void Endpoint::send_sidr_rep(Instant now, Connection& connection, const LookupReplyParameters& p) {
  wire::CmSidrRep rep{.request_id = connection.remote_id,
                      .status = p.status,
                      .info_length = static_cast<std::uint8_t>(p.info.size()),
                      .vendor_id = p.ece.vendor_id & wire::kMask24,
                      .qpn = p.qpn,
                      .service_id = connection.service_id,
                      .qkey = p.qkey};
  place_octets(p.info, rep.info);
  place_octets(p.private_data.view(), rep.private_data);
  connection.state = State::kSidrReplied;
  leave_listener(connection);
  send(connection, connection.transaction_id, rep, p.ece.options);
  timers_.set(connection, now + settings_.linger);
  if (!connection.owned) bury(connection);
}

void Endpoint::handle(const Received& in, const wire::CmSidrRep& rep) {
  if (is_foreign(in, rep.request_id)) return;
  Connection* connection = table_.find(rep.request_id);
  if (connection == nullptr || connection->state != State::kSidrReqSent) {
    ++counters_.unmatched;
    return;
  }
  tell(*connection,
       LookupReply{.status = rep.status,
                   .qpn = rep.qpn,
                   .qkey = rep.qkey,
                   .ece = {.vendor_id = rep.vendor_id, .options = in.mad.attribute_modifier},
                   .info = rep.info,
                   .info_length = rep.info_length},
       PrivateData(rep.private_data));
  become_idle(*connection);
}

}  // namespace rrdma::cm
