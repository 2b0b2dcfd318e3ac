// Commands about connections: CONNECT, ACCEPT, REJECT, DISCONNECT, NOTIFY.
#include <algorithm>
#include <cstring>

#include "preload/rdma_cm/ask.h"
#include "preload/rdma_cm/station.h"
#include "wire/cm_ip_header.h"

namespace rrdma::rdma_cm {
namespace {

constexpr std::uint32_t kCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST

// Converts an ibv_qp_type; nothing for types without connections.
std::optional<cm::QpType> connection_type(std::uint8_t qp_type) {
  switch (qp_type) {
    case kQpReliable: return cm::QpType::kReliable;
    case kQpUnreliable: return cm::QpType::kUnreliable;
    case kQpXrcInitiator: return cm::QpType::kXrcInitiator;
    case kQpXrcTarget: return cm::QpType::kXrcTarget;
    default: return std::nullopt;
  }
}

std::uint64_t service_of(const Identifier& id) {
  return wire::service_id_of(id.service(id.destination.port));
}

wire::IpCmHeader addresses_of(const Identifier& id) {
  return {.version = id.destination.family == Family::kIpv4 ? wire::IpVersion::kIpv4 : wire::IpVersion::kIpv6,
          .source_port = id.source.port,
          .source = id.source.gid,
          .destination = id.destination.gid};
}

template <typename Parameters>
cm::PrivateData private_data_of(const Parameters& parameters) {
  return Octets(parameters.private_data,
                std::min<std::size_t>(parameters.private_data_len, wire::kPrivateOctetsMax));
}

cm::Ece ece_of(const rdma_ucm_ece& ece) { return {.vendor_id = ece.vendor_id, .options = ece.attr_mod}; }

}  // namespace

// REQUIRES: the lock, and an id that is not for datagrams.
cm::ConnectParameters Station::call_of(const Identifier& id, const rdma_ucm_connect& command,
                                       cm::QpType type) const {
  const rdma_ucm_conn_param& wanted = command.conn_param;
  const bool timed = id.ack_timeout_set && id.ack_timeout > 0;
  return {.route = id.route,
          .service_id = service_of(id),
          .ip = addresses_of(id),
          .qp_type = type,
          .qpn = wire::Qpn(wanted.qp_num),
          .starting_psn = wire::Psn(id.starting_psn),
          .path_mtu = uplink_.device_of(id.route.local).port().mtu_code,
          .responder_resources = wanted.responder_resources,
          .initiator_depth = wanted.initiator_depth,
          .retry_count = std::min(wanted.retry_count, wire::kRetryCountMax),
          .rnr_retry_count = std::min(wanted.rnr_retry_count, wire::kRetryCountMax),
          .flow_control = wanted.flow_control != 0,
          .srq = wanted.srq != 0,
          .packet_lifetime = timed ? static_cast<std::uint8_t>(id.ack_timeout - 1) : cm::kRocePacketLifetime,
          .local_ca_guid = uplink_.device_of(id.route.local).identity().guid,
          .ece = ece_of(command.ece),
          .private_data = private_data_of(wanted)};
}

int Station::connect(Channel& channel, const rdma_ucm_connect& command) {
  constexpr const char* kCall = "rdma_connect";
  if (command.conn_param.valid == 0) return EINVAL;
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  control::CmConnect message;
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed || id->state != IdState::kRouteResolved) return EINVAL;
    if (id->destination.family == Family::kIpv4 && !id->source.gid.is_ipv4()) return EINVAL;
    if (!id->is_datagram()) {
      const auto type = connection_type(id->qp_type);
      if (!type) return EINVAL;
      message = {.number = id->number, .parameters = call_of(*id, command, *type)};
      id->attributes.max_destination_reads = message.parameters.responder_resources;
    }
    // Before the daemon gets the request: its answer may come at once.
    id->state = IdState::kConnecting;
    id->active = true;
    id->half_open = true;
  }
  auto started = id->is_datagram() ? ask<control::CmStarted>(control::CmLookUp{
                                         .number = id->number,
                                         .parameters = {.route = id->route,
                                                        .service_id = service_of(*id),
                                                        .ip = addresses_of(*id),
                                                        .private_data = private_data_of(command.conn_param)}})
                                   : ask<control::CmStarted>(message);
  const std::lock_guard lock(mutex_);
  if (!started) {
    id->state = IdState::kRouteResolved;
    id->half_open = false;
    return host::fail(started.error().error, kCall, started.error().sentence);
  }
  if (id->destroyed) return 0;
  id->connection = started->connection;
  by_connection_[id->connection.value] = id;
  return 0;
}

int Station::accept(Channel& channel, const rdma_ucm_accept& command) {
  const auto [id, command_lock, error] = hold_connected(channel, command.id);
  if (id == nullptr) return error;
  {
    const std::lock_guard lock(mutex_);
    if (id->state != IdState::kConnecting) return EINVAL;
  }
  return command.conn_param.valid != 0 ? accept_call(*id, command) : confirm(*id);
}

// The passive side. REQUIRES: the id's command lock.
int Station::accept_call(Identifier& id, const rdma_ucm_accept& command) {
  constexpr const char* kCall = "rdma_accept";
  const rdma_ucm_conn_param& parameters = command.conn_param;
  std::uint64_t uid_before = 0;
  std::uint32_t qkey = 0;
  {
    // Deliver events to the program from now on; the RTU may come before the daemon's answer.
    const std::lock_guard lock(mutex_);
    uid_before = std::exchange(id.uid, command.uid);
    if (id.is_datagram() && parameters.qkey != 0) id.qkey = parameters.qkey;
    qkey = id.qkey;
  }
  int error = 0;
  if (id.is_datagram()) {
    error = tell(kCall, control::CmReplyLookUp{.connection = id.connection,
                                               .parameters = {.qpn = wire::Qpn(parameters.qp_num),
                                                              .qkey = {qkey},
                                                              .ece = ece_of(command.ece),
                                                              .private_data = private_data_of(parameters)}});
  } else {
    error =
        tell(kCall,
             control::CmAccept{
                 .connection = id.connection,
                 .parameters = {.qpn = wire::Qpn(parameters.qp_num),
                                .starting_psn = wire::Psn(id.starting_psn),
                                .responder_resources = parameters.responder_resources,
                                .initiator_depth = parameters.initiator_depth,
                                .rnr_retry_count = std::min(parameters.rnr_retry_count, wire::kRetryCountMax),
                                .flow_control = parameters.flow_control != 0,
                                .srq = parameters.srq != 0,
                                .local_ca_guid = uplink_.device_of(id.route.local).identity().guid,
                                .ece = ece_of(command.ece),
                                .private_data = private_data_of(parameters)}});
  }
  const std::lock_guard lock(mutex_);
  if (error != 0) {
    id.uid = uid_before;
  } else {
    id.attributes.max_destination_reads = parameters.responder_resources;
    id.attributes.max_reads = parameters.initiator_depth;
  }
  return error;
}

// The active side: its queue pair is ready. REQUIRES: the id's command lock.
int Station::confirm(Identifier& id) {
  const auto established = ask<control::CmEstablished>(control::CmReady{.connection = id.connection});
  if (!established)
    return host::fail(established.error().error, "rdma_establish", established.error().sentence);
  const std::lock_guard lock(mutex_);
  id.established = established->connection;
  id.half_open = false;
  return 0;
}

int Station::reject(Channel& channel, const rdma_ucm_reject& command) {
  constexpr const char* kCall = "rdma_reject";
  const auto reason = command.reason == 0 ? wire::RejectReason::kConsumerDefined
                                          : static_cast<wire::RejectReason>(command.reason);
  if (reason != wire::RejectReason::kConsumerDefined &&
      reason != wire::RejectReason::kVendorOptionNotSupported)
    return EINVAL;
  const auto [id, command_lock, error] = hold_connected(channel, command.id);
  if (id == nullptr) return error;
  const cm::PrivateData private_data = private_data_of(command);
  if (id->is_datagram()) {
    return tell(kCall, control::CmReplyLookUp{.connection = id->connection,
                                              .parameters = {.status = wire::SidrStatus::kRejected,
                                                             .private_data = private_data}});
  }
  return tell(kCall, control::CmReject{.connection = id->connection,
                                       .parameters = {.reason = reason, .private_data = private_data}});
}

int Station::disconnect(Channel& channel, const rdma_ucm_disconnect& command) {
  const auto [id, command_lock, error] = hold_connected(channel, command.id);
  if (id == nullptr) return error;
  const auto asked = ask<control::Done>(control::CmDisconnect{.connection = id->connection});
  // Nothing to disconnect, or already disconnected: not an error of the program.
  if (asked.ok() || asked.error().error == EINVAL || asked.error().error == ENOENT) return 0;
  return host::fail(asked.error().error, "rdma_disconnect", asked.error().sentence);
}

int Station::notify(Channel& channel, const rdma_ucm_notify& command) {
  const auto [id, command_lock, error] = hold_connected(channel, command.id);
  if (id == nullptr) return error;
  if (command.event != kCommunicationEstablished) return EINVAL;
  const auto asked = ask<control::Done>(control::CmNotify{.connection = id->connection});
  return asked.ok() ? 0 : asked.error().error;
}

}  // namespace rrdma::rdma_cm
