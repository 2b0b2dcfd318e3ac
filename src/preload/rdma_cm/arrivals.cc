// What arrives by itself: events of the daemon, and the daemon's death. All of it comes on the NIC's
// background thread.
#include <algorithm>
#include <cstring>

#include "host/explain.h"
#include "preload/rdma_cm/ask.h"
#include "preload/rdma_cm/routes.h"
#include "preload/rdma_cm/station.h"
#include "wire/cm_ip_header.h"

namespace rrdma::rdma_cm {
namespace {

using control::CmEventKind;

void copy_private_data(const std::vector<std::uint8_t>& from, std::uint8_t* to, std::uint8_t& length) {
  length = static_cast<std::uint8_t>(std::min<std::size_t>(from.size(), wire::kPrivateOctetsMax));
  std::memcpy(to, from.data(), length);
}

// The addresses of an incoming call: the caller's source is our destination.
void take_addresses(const control::CmEvent& event, Identifier& id) {
  const auto service = wire::ip_service_of(event.service_id);
  if (!event.addresses.present) return;
  id.source = address_of_gid(event.addresses.destination, service ? service->port : 0);
  id.destination = address_of_gid(event.addresses.source, event.addresses.source_port);
  id.source.scope = event.route.interface_index;
  id.destination.scope = event.route.interface_index;
}

}  // namespace

void Station::on_daemon_message(control::Received& message) {
  const auto event = message.as<control::CmEvent>();
  if (!event) return;
  if (event->kind == CmEventKind::kConnectRequest || event->kind == CmEventKind::kLookUpRequest) {
    arrive_request(*event);
  } else {
    arrive(*event);
  }
}

void Station::fill_connection(const control::CmEvent& event, rdma_ucm_conn_param& to) const {
  to.qp_num = event.terms.qpn;
  to.qkey = event.terms.qkey;
  to.srq = event.terms.srq ? 1 : 0;
  to.responder_resources = event.terms.responder_resources;
  to.initiator_depth = event.terms.initiator_depth;
  to.flow_control = event.terms.flow_control ? 1 : 0;
  to.retry_count = event.terms.retry_count;
  to.rnr_retry_count = event.terms.rnr_retry_count;
  copy_private_data(event.private_data, to.private_data, to.private_data_len);
}

void Station::arrive_request(const control::CmEvent& event) {
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_number_.find(event.number);
    const IdPointer listener = found == by_number_.end() ? nullptr : found->second;
    refused = listener == nullptr || listener->state != IdState::kListening ||
              !gid_index_for(uplink_.device(), event.route.local, event.route.remote);
    if (!refused) {
      const IdPointer id = make_id(*listener->channel);
      id->port_space = listener->port_space;
      id->qp_type = listener->qp_type;
      id->state = IdState::kConnecting;
      id->has_device = true;
      id->half_open = true;
      id->connection = event.connection;
      id->route = event.route;
      id->route.interface_index = uplink_.device().identity().interface_index;
      id->attributes = event.attributes;
      id->attributes_known = event.kind == CmEventKind::kConnectRequest;
      id->source.family = listener->source.family;
      take_addresses(event, *id);
      by_connection_[id->connection] = id;

      PendingEvent pending = event_for(listener, EventKind::kConnectRequest);
      pending.request = id;
      pending.content.id = id->handle;
      if (id->is_datagram()) {
        rdma_ucm_ud_param& to = pending.content.param.ud;
        to.qp_num = event.terms.qpn;
        to.qkey = event.terms.qkey;
        copy_private_data(event.private_data, to.private_data, to.private_data_len);
      } else {
        fill_connection(event, pending.content.param.conn);
      }
      pending.content.ece = {.vendor_id = event.terms.ece.vendor_id, .attr_mod = event.terms.ece.options};
      push(std::move(pending));
    }
  }
  if (!refused) return;
  host::explain(
      host::Severity::kDebug, "rdma_listen",
      "a call was refused: nobody listens any more, or it came by an interface that the device is not on.");
  (void)ask<control::Done>(control::CmDestroy{.connection = event.connection});
}

// The id that an event is about; null if it is gone. REQUIRES: the lock.
IdPointer Station::owner_of(const control::CmEvent& event) {
  if (const auto known = by_connection_.find(event.connection); known != by_connection_.end())
    return known->second;
  const auto named = by_number_.find(event.number);
  if (named == by_number_.end()) return nullptr;
  // The daemon's answer to the command that made the connection may not have been read yet.
  const IdPointer& id = named->second;
  return id->active && id->connection == 0 && id->state == IdState::kConnecting ? id : nullptr;
}

void Station::arrive(const control::CmEvent& event) {
  const std::lock_guard lock(mutex_);
  const IdPointer id = owner_of(event);
  if (id == nullptr) return;
  const bool connecting = id->state == IdState::kConnecting;
  if (event.kind == CmEventKind::kTimeWaitExit ? id->state != IdState::kDisconnected : !connecting) return;
  EventKind kind{};
  int status = 0;
  switch (event.kind) {
    case CmEventKind::kConnectReply:
      kind = EventKind::kConnectResponse;
      id->attributes = event.attributes;
      id->attributes_known = true;
      break;
    case CmEventKind::kEstablished:
      kind = EventKind::kEstablished;
      id->established = event.established;
      id->half_open = false;
      break;
    case CmEventKind::kRejected:
      kind = EventKind::kRejected;
      status = event.status;
      id->half_open = false;
      break;
    case CmEventKind::kUnreachable:
      kind = EventKind::kUnreachable;
      status = -ETIMEDOUT;
      id->half_open = false;
      break;
    case CmEventKind::kDisconnected:
      kind = EventKind::kDisconnected;
      status = event.status == 0 ? 0 : -ETIMEDOUT;
      id->state = IdState::kDisconnected;
      id->half_open = false;
      break;
    case CmEventKind::kTimeWaitExit: kind = EventKind::kTimeWaitExit; break;
    case CmEventKind::kLookUpReply:
      kind = event.status == 0 ? EventKind::kEstablished : EventKind::kUnreachable;
      status = event.status;
      id->half_open = false;
      if (event.status == 0) id->qkey = event.terms.qkey;
      break;
    case CmEventKind::kConnectRequest:
    case CmEventKind::kLookUpRequest: return;
  }
  // Nobody was told of an incoming call that was not accepted: it fails when the program tries.
  if (id->uid == 0) return;
  PendingEvent pending = event_for(id, kind, status);
  if (id->is_datagram()) {
    rdma_ucm_ud_param& to = pending.content.param.ud;
    to.qp_num = event.terms.qpn;
    to.qkey = event.terms.qkey;
    fill_path(*id, to.ah_attr);
    copy_private_data(event.private_data, to.private_data, to.private_data_len);
  } else {
    fill_connection(event, pending.content.param.conn);
  }
  pending.content.ece = {.vendor_id = event.terms.ece.vendor_id, .attr_mod = event.terms.ece.options};
  push(std::move(pending));
}

// ---- the daemon's death

void Station::on_daemon_changed() {
  if (uplink_.is_open()) adopt_new_daemon();
}

// Tells a daemon that took over what the last one knew: ports and listeners as they were, connections that
// stand. What was being made is lost, and says so.
void Station::adopt_new_daemon() {
  const std::lock_guard adoption(adoption_);
  const std::uint32_t pid = uplink_.daemon_pid();
  if (pid == adopted_pid_) return;
  adopted_pid_ = pid;
  std::vector<IdPointer> bound, standing;
  {
    const std::lock_guard lock(mutex_);
    for (const IdPointer& id : ids_) {
      if (id == nullptr) continue;
      if (id->has_port) bound.push_back(id);
      if (id->connection == 0) continue;
      if (id->established.present && id->state == IdState::kConnecting) {
        standing.push_back(id);
        continue;
      }
      by_connection_.erase(id->connection);
      id->connection = 0;
      if (!id->half_open) continue;
      id->half_open = false;
      if (id->uid != 0) push(event_for(id, EventKind::kUnreachable, -ETIMEDOUT));
    }
  }
  for (const IdPointer& id : bound) restore_port(id);
  for (const IdPointer& id : standing) restore_connection(id);
}

void Station::restore_port(const IdPointer& id) {
  control::CmBind bind;
  bool listens = false;
  std::uint32_t backlog = 0;
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed) return;
    bind = {
        .number = id->number,
        .port_space = static_cast<std::uint8_t>(id->port_space),
        .family = id->source.family == Family::kIpv4 ? control::CmFamily::kIpv4 : control::CmFamily::kIpv6,
        .reuse = id->reuse,
        .family_only = id->family_only,
        .address = id->source.gid,
        .port = id->source.port};
    listens = id->state == IdState::kListening;
    backlog = id->backlog;
  }
  const auto bound = uplink_.ask<control::CmBound>(bind);
  if (!bound)
    host::explain(host::Severity::kError, "rdma_bind_addr",
                  "after the daemon's death the port was lost: " + bound.error().sentence);
  if (!bound || !listens) return;
  const auto listening =
      uplink_.ask<control::Done>(control::CmListen{.number = id->number, .backlog = backlog});
  if (!listening)
    host::explain(host::Severity::kError, "rdma_listen",
                  "after the daemon's death nobody listens: " + listening.error().sentence);
}

void Station::restore_connection(const IdPointer& id) {
  control::CmRestore restore;
  {
    const std::lock_guard lock(mutex_);
    if (id->destroyed) return;
    restore = {.number = id->number, .connection = id->established};
    restore.connection.route.interface_index = id->route.interface_index;
  }
  const auto restored = uplink_.ask<control::Done>(restore);
  if (restored.ok()) return;
  const std::lock_guard lock(mutex_);
  if (id->destroyed || id->state != IdState::kConnecting) return;
  by_connection_.erase(id->connection);
  id->connection = 0;
  id->state = IdState::kDisconnected;
  push(event_for(id, EventKind::kDisconnected, -ETIMEDOUT));
}

}  // namespace rrdma::rdma_cm
