// Commands about connections: CONNECT, ACCEPT, REJECT, DISCONNECT, NOTIFY.
#include <algorithm>
#include <cstring>

#include "preload/rdma_cm/ask.h"
#include "preload/rdma_cm/station.h"
#include "wire/cm_ip_header.h"

namespace rrdma::rdma_cm {
namespace {

constexpr std::uint8_t kPacketLifetime = 16;            // as the kernel has it for RoCE
constexpr std::uint32_t kCommunicationEstablished = 4;  // IBV_EVENT_COMM_EST
constexpr std::uint8_t kLookUpRejected = 2;             // wire::SidrStatus::kRejected

// cm::QpType of an ibv_qp_type; nothing for those that no connection is made of.
std::optional<std::uint8_t> connection_type(std::uint8_t qp_type) {
  switch (qp_type) {
    case kQpReliable: return 0;
    case kQpUnreliable: return 1;
    case kQpXrcInitiator: return 2;
    case kQpXrcTarget: return 3;
    default: return std::nullopt;
  }
}

std::uint64_t service_of(const Identifier& id) {
  return wire::service_id_of(
      {.port_space = static_cast<wire::PortSpace>(static_cast<std::uint8_t>(id.port_space)),
       .port = id.destination.port});
}

control::CmAddresses addresses_of(const Identifier& id) {
  return {.present = true,
          .ip_version = static_cast<std::uint8_t>(id.destination.family == Family::kIpv4 ? 4 : 6),
          .source = id.source.gid,
          .destination = id.destination.gid,
          .source_port = id.source.port};
}

std::vector<std::uint8_t> private_data_of(const rdma_ucm_conn_param& parameters) {
  return {
      parameters.private_data,
      parameters.private_data + std::min<std::size_t>(parameters.private_data_len, wire::kPrivateOctetsMax)};
}

control::CmTerms terms_of(const rdma_ucm_conn_param& parameters, const rdma_ucm_ece& ece, std::uint32_t psn) {
  return {.qpn = parameters.qp_num & wire::kMask24,
          .psn = psn,
          .qkey = parameters.qkey,
          .responder_resources = parameters.responder_resources,
          .initiator_depth = parameters.initiator_depth,
          .retry_count = std::min<std::uint8_t>(parameters.retry_count, 7),
          .rnr_retry_count = std::min<std::uint8_t>(parameters.rnr_retry_count, 7),
          .flow_control = parameters.flow_control != 0,
          .srq = parameters.srq != 0,
          .ece = {.vendor_id = ece.vendor_id, .options = ece.attr_mod}};
}

}  // namespace

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
    if (!id->is_datagram()) {
      const auto type = connection_type(id->qp_type);
      if (!type) return EINVAL;
      message = {.number = id->number,
                 .service_id = service_of(*id),
                 .qp_type = *type,
                 .path_mtu = uplink_.device().port().mtu_code,
                 .packet_lifetime = id->ack_timeout_set && id->ack_timeout > 0
                                        ? static_cast<std::uint8_t>(id->ack_timeout - 1)
                                        : kPacketLifetime,
                 .device_guid = uplink_.device().identity().guid,
                 .route = id->route,
                 .addresses = addresses_of(*id),
                 .terms = terms_of(command.conn_param, command.ece, id->starting_psn),
                 .private_data = private_data_of(command.conn_param)};
      id->attributes.responder_resources = message.terms.responder_resources;
    }
    // Before the daemon knows: its answer may come at once.
    id->state = IdState::kConnecting;
    id->active = true;
    id->half_open = true;
  }
  auto started =
      id->is_datagram()
          ? ask<control::CmStarted>(control::CmLookUp{.number = id->number,
                                                      .service_id = service_of(*id),
                                                      .route = id->route,
                                                      .addresses = addresses_of(*id),
                                                      .private_data = private_data_of(command.conn_param)})
          : ask<control::CmStarted>(message);
  const std::lock_guard lock(mutex_);
  if (!started) {
    id->state = IdState::kRouteResolved;
    id->half_open = false;
    return host::fail(started.error().error, kCall, started.error().sentence);
  }
  if (id->destroyed) return 0;
  id->connection = started->connection;
  by_connection_[id->connection] = id;
  return 0;
}

int Station::accept(Channel& channel, const rdma_ucm_accept& command) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed || id->state != IdState::kConnecting || id->connection == 0) return EINVAL;
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
    // Events are for the program from now on; the RTU may come before the daemon's answer.
    const std::lock_guard lock(mutex_);
    uid_before = std::exchange(id.uid, command.uid);
    if (id.is_datagram() && parameters.qkey != 0) id.qkey = parameters.qkey;
    qkey = id.qkey;
  }
  int error = 0;
  if (id.is_datagram()) {
    error = tell(kCall, control::CmReplyLookUp{
                            .connection = id.connection,
                            .status = 0,
                            .qpn = parameters.qp_num & wire::kMask24,
                            .qkey = qkey,
                            .ece = {.vendor_id = command.ece.vendor_id, .options = command.ece.attr_mod},
                            .private_data = private_data_of(parameters)});
  } else {
    error = tell(kCall, control::CmAccept{.connection = id.connection,
                                          .device_guid = uplink_.device().identity().guid,
                                          .terms = terms_of(parameters, command.ece, id.starting_psn),
                                          .private_data = private_data_of(parameters)});
  }
  const std::lock_guard lock(mutex_);
  if (error != 0) {
    id.uid = uid_before;
  } else {
    id.attributes.responder_resources = parameters.responder_resources;
    id.attributes.initiator_depth = parameters.initiator_depth;
  }
  return error;
}

// The active side: its queue pair is ready. REQUIRES: the id's command lock.
int Station::confirm(Identifier& id) {
  const auto established = ask<control::CmEstablished>(control::CmReady{.connection = id.connection});
  if (!established)
    return host::fail(established.error().error, "rdma_establish", established.error().sentence);
  const std::lock_guard lock(mutex_);
  id.established = *established;
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
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed || id->connection == 0) return EINVAL;
  }
  const std::size_t size = std::min<std::size_t>(command.private_data_len, wire::kPrivateOctetsMax);
  std::vector<std::uint8_t> private_data(command.private_data, command.private_data + size);
  if (id->is_datagram()) {
    return tell(kCall, control::CmReplyLookUp{.connection = id->connection,
                                              .status = kLookUpRejected,
                                              .private_data = std::move(private_data)});
  }
  return tell(kCall, control::CmReject{.connection = id->connection,
                                       .reason = static_cast<std::uint16_t>(reason),
                                       .private_data = std::move(private_data)});
}

int Station::disconnect(Channel& channel, const rdma_ucm_disconnect& command) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed || id->connection == 0) return EINVAL;
  }
  const auto asked = ask<control::Done>(control::CmDisconnect{.connection = id->connection});
  // Nothing to disconnect, or disconnected already: not a mistake of the program.
  if (asked.ok() || asked.error().error == EINVAL || asked.error().error == ENOENT) return 0;
  return host::fail(asked.error().error, "rdma_disconnect", asked.error().sentence);
}

int Station::notify(Channel& channel, const rdma_ucm_notify& command) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed || id->connection == 0) return EINVAL;
  }
  if (command.event != kCommunicationEstablished) return EINVAL;
  const auto asked = ask<control::Done>(control::CmNotify{.connection = id->connection});
  return asked.ok() ? 0 : asked.error().error;
}

}  // namespace rrdma::rdma_cm
