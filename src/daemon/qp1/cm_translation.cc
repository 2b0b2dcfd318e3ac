#include "daemon/qp1/cm_translation.h"

#include <cerrno>
#include <variant>

namespace rrdma::daemon {
namespace {

control::CmAddresses message_of(const std::optional<wire::IpCmHeader>& ip) {
  if (!ip) return {};
  return {.present = true,
          .ip_version = static_cast<std::uint8_t>(ip->version),
          .source = ip->source,
          .destination = ip->destination,
          .source_port = ip->source_port};
}

cm::Ece ece_of(const control::CmEce& ece) { return {.vendor_id = ece.vendor_id, .options = ece.options}; }
control::CmEce message_of(const cm::Ece& ece) { return {.vendor_id = ece.vendor_id, .options = ece.options}; }

// What the program may see of the private data: not the header that its library put before it.
std::vector<std::uint8_t> visible(const cm::PrivateData& data, bool has_header) {
  const Octets all = data.view();
  const Octets own = all.subspan(has_header ? std::min(all.size(), wire::kIpCmHeaderOctets) : 0);
  return {own.begin(), own.end()};
}

struct Translator {
  const cm::Event& event;
  control::CmEvent& message;

  void operator()(const cm::ConnectRequest& request) const {
    message.kind = control::CmEventKind::kConnectRequest;
    message.service_id = request.service_id;
    message.route = daemon::message_of(request.route);
    message.addresses = message_of(request.ip);
    message.terms = {.qpn = request.remote_qpn.value,
                     .psn = request.remote_psn.value,
                     .qkey = request.remote_qkey.value,
                     .responder_resources = request.responder_resources,
                     .initiator_depth = request.initiator_depth,
                     .retry_count = request.retry_count,
                     .rnr_retry_count = request.rnr_retry_count,
                     .flow_control = request.flow_control,
                     .srq = request.srq,
                     .ece = message_of(request.ece)};
    message.private_data = visible(event.private_data, request.ip.has_value());
  }
  void operator()(const cm::ConnectReply& reply) const {
    message.kind = control::CmEventKind::kConnectReply;
    message.terms = {.qpn = reply.remote_qpn.value,
                     .psn = reply.remote_psn.value,
                     .qkey = reply.remote_qkey.value,
                     .responder_resources = reply.responder_resources,
                     .initiator_depth = reply.initiator_depth,
                     .rnr_retry_count = reply.rnr_retry_count,
                     .flow_control = reply.flow_control,
                     .srq = reply.srq,
                     .ece = message_of(reply.ece)};
    message.private_data = visible(event.private_data, false);
  }
  void operator()(const cm::Established&) const {
    message.kind = control::CmEventKind::kEstablished;
    message.private_data = visible(event.private_data, false);
  }
  void operator()(const cm::Rejected& rejected) const {
    message.kind = control::CmEventKind::kRejected;
    message.status = static_cast<std::uint16_t>(rejected.reason);
    message.private_data = visible(event.private_data, false);
  }
  void operator()(const cm::Unreachable&) const { message.kind = control::CmEventKind::kUnreachable; }
  void operator()(const cm::Disconnected& disconnected) const {
    message.kind = control::CmEventKind::kDisconnected;
    message.status = disconnected.cause == cm::DisconnectCause::kNoAnswer ? 1 : 0;
    message.private_data = visible(event.private_data, false);
  }
  void operator()(const cm::TimeWaitExit&) const { message.kind = control::CmEventKind::kTimeWaitExit; }
  void operator()(const cm::LookupRequest& request) const {
    message.kind = control::CmEventKind::kLookUpRequest;
    message.service_id = request.service_id;
    message.route = daemon::message_of(request.route);
    message.addresses = message_of(request.ip);
    message.private_data = visible(event.private_data, request.ip.has_value());
  }
  void operator()(const cm::LookupReply& reply) const {
    message.kind = control::CmEventKind::kLookUpReply;
    message.status = static_cast<std::uint16_t>(reply.status);
    message.terms.qpn = reply.qpn.value;
    message.terms.qkey = reply.qkey.value;
    message.terms.ece = message_of(reply.ece);
    message.private_data = visible(event.private_data, false);
  }
};

}  // namespace

cm::Route route_of(const control::CmRoute& route) {
  return {.local = route.local,
          .remote = route.remote,
          .traffic_class = route.traffic_class,
          .hop_limit = route.hop_limit,
          .service_level = route.service_level};
}

control::CmRoute message_of(const cm::Route& route) {
  return {.local = route.local,
          .remote = route.remote,
          .traffic_class = route.traffic_class,
          .service_level = route.service_level,
          .hop_limit = route.hop_limit};
}

std::optional<wire::IpCmHeader> header_of(const control::CmAddresses& addresses) {
  if (!addresses.present) return std::nullopt;
  return wire::IpCmHeader{
      .version = addresses.ip_version == 4 ? wire::IpVersion::kIpv4 : wire::IpVersion::kIpv6,
      .source_port = addresses.source_port,
      .source = addresses.source,
      .destination = addresses.destination};
}

cm::ConnectParameters parameters_of(const control::CmConnect& connect, cm::OwnerToken owner) {
  const control::CmTerms& terms = connect.terms;
  return {.owner = owner,
          .route = route_of(connect.route),
          .service_id = connect.service_id,
          .ip = header_of(connect.addresses),
          .qp_type = static_cast<cm::QpType>(std::min<std::uint8_t>(connect.qp_type, 3)),
          .qpn = wire::Qpn(terms.qpn),
          .starting_psn = wire::Psn(terms.psn),
          .path_mtu = connect.path_mtu,
          .responder_resources = terms.responder_resources,
          .initiator_depth = terms.initiator_depth,
          .retry_count = terms.retry_count,
          .rnr_retry_count = terms.rnr_retry_count,
          .flow_control = terms.flow_control,
          .srq = terms.srq,
          .packet_lifetime = connect.packet_lifetime,
          .local_ca_guid = connect.device_guid,
          .ece = ece_of(terms.ece),
          .private_data = connect.private_data};
}

cm::AcceptParameters parameters_of(const control::CmAccept& accept) {
  const control::CmTerms& terms = accept.terms;
  return {.qpn = wire::Qpn(terms.qpn),
          .starting_psn = wire::Psn(terms.psn),
          .responder_resources = terms.responder_resources,
          .initiator_depth = terms.initiator_depth,
          .rnr_retry_count = terms.rnr_retry_count,
          .flow_control = terms.flow_control,
          .srq = terms.srq,
          .local_ca_guid = accept.device_guid,
          .ece = ece_of(terms.ece),
          .private_data = accept.private_data};
}

cm::LookupParameters parameters_of(const control::CmLookUp& look_up, cm::OwnerToken owner) {
  return {.owner = owner,
          .route = route_of(look_up.route),
          .service_id = look_up.service_id,
          .ip = header_of(look_up.addresses),
          .private_data = look_up.private_data};
}

cm::LookupReplyParameters parameters_of(const control::CmReplyLookUp& reply) {
  return {.status = static_cast<wire::SidrStatus>(reply.status),
          .qpn = wire::Qpn(reply.qpn),
          .qkey = {reply.qkey},
          .ece = ece_of(reply.ece),
          .private_data = reply.private_data};
}

control::CmEstablished message_of(const cm::EstablishedConnection& connection) {
  return {.present = true,
          .connection = connection.id.value,
          .remote_connection = connection.remote_id.value,
          .route = message_of(connection.route),
          .active = connection.active,
          .qp_type = static_cast<std::uint8_t>(connection.qp_type),
          .local_qpn = connection.local_qpn.value,
          .remote_qpn = connection.remote_qpn.value,
          .send_psn = connection.send_psn.value,
          .receive_psn = connection.receive_psn.value,
          .path_mtu = connection.path_mtu,
          .responder_resources = connection.responder_resources,
          .initiator_depth = connection.initiator_depth,
          .retry_count = connection.retry_count,
          .rnr_retry_count = connection.rnr_retry_count,
          .ack_timeout = connection.ack_timeout,
          .max_cm_retries = connection.max_cm_retries,
          .response_timeout_ns = connection.response_timeout.ns,
          .transaction_id = connection.transaction_id,
          .device_guid = connection.local_ca_guid};
}

cm::EstablishedConnection connection_of(const control::CmEstablished& message) {
  return {.id = {message.connection},
          .remote_id = {message.remote_connection},
          .route = route_of(message.route),
          .active = message.active,
          .qp_type = static_cast<cm::QpType>(std::min<std::uint8_t>(message.qp_type, 3)),
          .local_qpn = wire::Qpn(message.local_qpn),
          .remote_qpn = wire::Qpn(message.remote_qpn),
          .send_psn = wire::Psn(message.send_psn),
          .receive_psn = wire::Psn(message.receive_psn),
          .path_mtu = message.path_mtu,
          .responder_resources = message.responder_resources,
          .initiator_depth = message.initiator_depth,
          .retry_count = message.retry_count,
          .rnr_retry_count = message.rnr_retry_count,
          .ack_timeout = std::min(message.ack_timeout, cm::kTimeCodeMax),
          .max_cm_retries = message.max_cm_retries,
          .response_timeout =
              nanoseconds(std::clamp<std::int64_t>(message.response_timeout_ns, 1'000'000, 60'000'000'000)),
          .transaction_id = message.transaction_id,
          .local_ca_guid = message.device_guid};
}

control::CmQpAttributes message_of(const cm::QpAttributes& attributes) {
  return {.qp_type = static_cast<std::uint8_t>(attributes.qp_type),
          .path_mtu = attributes.path_mtu,
          .destination_qpn = attributes.destination_qpn.value,
          .send_psn = attributes.send_psn.value,
          .responder_resources = attributes.max_destination_reads,
          .initiator_depth = attributes.max_reads,
          .ack_timeout = attributes.timeout,
          .retry_count = attributes.retry_count,
          .rnr_retry_count = attributes.rnr_retry_count};
}

control::CmEvent message_of(const cm::Event& event) {
  control::CmEvent message;
  message.number = static_cast<std::uint32_t>(event.owner);
  message.connection = event.id.value;
  std::visit(Translator{event, message}, event.details);
  return message;
}

int errno_of(cm::Error error) {
  switch (error) {
    case cm::Error::kUnknownConnection: return ENOENT;
    case cm::Error::kUnknownListener: return ENOENT;
    case cm::Error::kWrongState: return EINVAL;
    case cm::Error::kAlreadyEstablished: return EISCONN;
    case cm::Error::kPrivateDataTooLong: return EINVAL;
    case cm::Error::kInfoTooLong: return EINVAL;
    case cm::Error::kInvalidPathMtu: return EINVAL;
    case cm::Error::kInvalidQpType: return EINVAL;
    case cm::Error::kTooManyConnections: return ENOMEM;
    case cm::Error::kTooManyListeners: return ENOMEM;
    case cm::Error::kServiceInUse: return EADDRINUSE;
    case cm::Error::kIdInUse: return EEXIST;
  }
  return EINVAL;
}

}  // namespace rrdma::daemon
