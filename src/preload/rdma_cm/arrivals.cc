// Handles unsolicited input: events of the daemon, and its death. All of it runs on the NIC's background
// thread.
#include <algorithm>
#include <cstring>

#include "host/explain.h"
#include "preload/rdma_cm/ask.h"
#include "preload/rdma_cm/refusals.h"
#include "preload/rdma_cm/routing/routes.h"
#include "preload/rdma_cm/station.h"
#include "wire/cm_ip_header.h"

namespace rrdma::rdma_cm {
namespace {

// The private data that the program may see: without the header that its library prepended.
Octets visible(const cm::Event& event, bool has_header) {
  const Octets all = event.private_data.view();
  return all.subspan(has_header ? std::min(all.size(), wire::kIpCmHeaderOctets) : 0);
}

void copy_octets(Octets from, std::uint8_t* to, std::uint8_t& length) {
  length = static_cast<std::uint8_t>(from.size());
  std::memcpy(to, from.data(), from.size());
}

// The addresses of an incoming call: the caller's source is our destination.
void take_addresses(const wire::IpCmHeader& ip, std::uint64_t service_id, std::uint32_t scope,
                    Identifier& id) {
  const auto service = wire::ip_service_of(service_id);
  id.source = address_of_gid(ip.destination, service ? service->port : 0);
  id.destination = address_of_gid(ip.source, ip.source_port);
  id.source.scope = scope;
  id.destination.scope = scope;
}

rdma_ucm_ece ece_of(const cm::Ece& ece) { return {.vendor_id = ece.vendor_id, .attr_mod = ece.options}; }

// Fills librdmacm's event with the peer's data: the terms of a REQ or a REP, or the queue pair that a lookup
// found. Every kind of event has private data; most have nothing else.
class Filler {
 public:
  Filler(rdma_ucm_event_resp& to, bool is_datagram) : to_(to), is_datagram_(is_datagram) {}

  void private_data(Octets octets) {
    if (is_datagram_) {
      copy_octets(octets, to_.param.ud.private_data, to_.param.ud.private_data_len);
    } else {
      copy_octets(octets, to_.param.conn.private_data, to_.param.conn.private_data_len);
    }
  }
  void operator()(const cm::ConnectRequest& request) {
    fill_terms(request);
    if (!is_datagram_) to_.param.conn.retry_count = request.retry_count;
  }
  void operator()(const cm::ConnectReply& reply) { fill_terms(reply); }
  void operator()(const cm::LookupReply& reply) {
    fill_queue_pair(reply.qpn, reply.qkey);
    to_.ece = ece_of(reply.ece);
  }
  template <typename Other>
  void operator()(const Other&) {}

 private:
  template <typename Terms>
  void fill_terms(const Terms& terms) {
    fill_queue_pair(terms.remote_qpn, terms.remote_qkey);
    to_.ece = ece_of(terms.ece);
    if (is_datagram_) return;
    rdma_ucm_conn_param& conn = to_.param.conn;
    conn.srq = terms.srq ? 1 : 0;
    conn.responder_resources = terms.responder_resources;
    conn.initiator_depth = terms.initiator_depth;
    conn.flow_control = terms.flow_control ? 1 : 0;
    conn.rnr_retry_count = terms.rnr_retry_count;
  }
  void fill_queue_pair(wire::Qpn qpn, wire::QKey qkey) {
    if (is_datagram_) {
      to_.param.ud.qp_num = qpn.value;
      to_.param.ud.qkey = qkey.value;
    } else {
      to_.param.conn.qp_num = qpn.value;
      to_.param.conn.qkey = qkey.value;
    }
  }

  rdma_ucm_event_resp& to_;
  const bool is_datagram_;
};

// The effect of an event on its id, and the event that the program gets.
struct Effect {
  EventKind kind{};
  int status = 0;
};

struct Applier {
  Identifier& id;
  const control::CmEvent& message;

  std::optional<Effect> operator()(const cm::ConnectReply&) const {
    if (message.attributes) id.attributes = *message.attributes;
    id.attributes_known = message.attributes.has_value();
    return Effect{EventKind::kConnectResponse};
  }
  std::optional<Effect> operator()(const cm::Established&) const {
    id.established = message.established;
    id.half_open = false;
    return Effect{EventKind::kEstablished};
  }
  std::optional<Effect> operator()(const cm::Rejected& rejected) const {
    explain_rejection(id.destination, rejected.reason);
    id.half_open = false;
    return Effect{EventKind::kRejected, static_cast<int>(rejected.reason)};
  }
  std::optional<Effect> operator()(const cm::Unreachable&) const {
    host::explain(host::Severity::kError, "rdma_connect", unreachable_sentence(id.destination));
    id.half_open = false;
    return Effect{EventKind::kUnreachable, -ETIMEDOUT};
  }
  std::optional<Effect> operator()(const cm::Disconnected& disconnected) const {
    id.state = IdState::kDisconnected;
    id.half_open = false;
    return Effect{EventKind::kDisconnected,
                  disconnected.cause == cm::DisconnectCause::kNoAnswer ? -ETIMEDOUT : 0};
  }
  std::optional<Effect> operator()(const cm::TimeWaitExit&) const { return Effect{EventKind::kTimeWaitExit}; }
  std::optional<Effect> operator()(const cm::LookupReply& reply) const {
    const bool found = reply.status == wire::SidrStatus::kValid;
    id.half_open = false;
    if (found) {
      id.qkey = reply.qkey.value;
    } else {
      host::explain(host::Severity::kError, "rdma_connect", look_up_sentence(id.destination, reply.status));
    }
    return Effect{found ? EventKind::kEstablished : EventKind::kUnreachable, static_cast<int>(reply.status)};
  }
  // arrive_request() handles requests.
  std::optional<Effect> operator()(const cm::ConnectRequest&) const { return std::nullopt; }
  std::optional<Effect> operator()(const cm::LookupRequest&) const { return std::nullopt; }
};

}  // namespace

void Station::on_daemon_message(control::Received& message) {
  const auto arrived = message.as<control::CmEvent>();
  if (!arrived) return;
  if (const auto* call = std::get_if<cm::ConnectRequest>(&arrived->event.details)) {
    arrive_request(*arrived, arrived->attributes ? arrived->attributes->route : call->route, call->ip,
                   call->service_id);
  } else if (const auto* question = std::get_if<cm::LookupRequest>(&arrived->event.details)) {
    arrive_request(*arrived, question->route, question->ip, question->service_id);
  } else {
    arrive(*arrived);
  }
}

void Station::arrive_request(const control::CmEvent& message, const cm::Route& route,
                             const std::optional<wire::IpCmHeader>& ip, std::uint64_t service_id) {
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_number_.find(message.number);
    const IdPointer listener = found == by_number_.end() ? nullptr : found->second;
    refused = listener == nullptr || listener->state != IdState::kListening ||
              !gid_index_for(uplink_.device_of(route.local), route.local, route.remote);
    if (!refused) {
      const IdPointer id = make_id(*listener->channel);
      id->port_space = listener->port_space;
      id->qp_type = listener->qp_type;
      id->state = IdState::kConnecting;
      id->device = &uplink_.device_of(route.local);
      id->half_open = true;
      id->connection = message.event.id;
      id->route = route;
      id->route.interface_index = id->device->identity().interface_index;
      if (message.attributes) id->attributes = *message.attributes;
      id->attributes_known = message.attributes.has_value();
      id->source.family = listener->source.family;
      if (ip) take_addresses(*ip, service_id, route.interface_index, *id);
      by_connection_[id->connection.value] = id;

      PendingEvent pending = event_for(listener, EventKind::kConnectRequest);
      pending.request = id;
      pending.content.id = id->handle;
      Filler filler(pending.content, id->is_datagram());
      std::visit(filler, message.event.details);
      filler.private_data(visible(message.event, ip.has_value()));
      push(std::move(pending));
    }
  }
  if (!refused) return;
  host::explain(
      host::Severity::kDebug, "rdma_listen",
      "a call was refused: nobody listens any more, or it came by an interface that the device is not on.");
  (void)ask<control::Done>(control::CmDestroy{.connection = message.event.id});
}

// The id of an event; null if it is gone. REQUIRES: the lock.
IdPointer Station::owner_of(const control::CmEvent& message) {
  if (const auto known = by_connection_.find(message.event.id.value); known != by_connection_.end())
    return known->second;
  const auto named = by_number_.find(message.number);
  if (named == by_number_.end()) return nullptr;
  // The daemon's answer to the command that created the connection may not have been read yet.
  const IdPointer& id = named->second;
  return id->active && !id->is_connected() && id->state == IdState::kConnecting ? id : nullptr;
}

void Station::arrive(const control::CmEvent& message) {
  const std::lock_guard lock(mutex_);
  const IdPointer id = owner_of(message);
  if (id == nullptr) return;
  const bool is_exit = std::holds_alternative<cm::TimeWaitExit>(message.event.details);
  if (id->state != (is_exit ? IdState::kDisconnected : IdState::kConnecting)) return;
  const auto effect = std::visit(Applier{*id, message}, message.event.details);
  // The program has not accepted this incoming call, so it gets no event; its accept fails instead.
  if (!effect || id->uid == 0) return;
  PendingEvent pending = event_for(id, effect->kind, effect->status);
  Filler filler(pending.content, id->is_datagram());
  std::visit(filler, message.event.details);
  filler.private_data(visible(message.event, false));
  if (id->is_datagram()) fill_path(*id, pending.content.param.ud.ah_attr);
  push(std::move(pending));
}

// ---- the daemon's death ----

void Station::on_daemon_changed() {
  if (uplink_.is_open()) adopt_new_daemon();
}

// Restores the state of the last daemon in its successor: ports, listeners and established connections.
// Half-open connections are lost, and their programs get an event.
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
      if (!id->is_connected()) continue;
      if (id->established && id->state == IdState::kConnecting) {
        standing.push_back(id);
        continue;
      }
      by_connection_.erase(id->connection.value);
      id->connection = {};
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
    bind = bind_message(*id, id->source);
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
    if (id->destroyed || !id->established) return;
    restore = {.number = id->number, .connection = *id->established};
    restore.connection.route.interface_index = id->route.interface_index;
  }
  const auto restored = uplink_.ask<control::Done>(restore);
  if (restored.ok()) return;
  const std::lock_guard lock(mutex_);
  if (id->destroyed || id->state != IdState::kConnecting) return;
  by_connection_.erase(id->connection.value);
  id->connection = {};
  id->state = IdState::kDisconnected;
  push(event_for(id, EventKind::kDisconnected, -ETIMEDOUT));
}

}  // namespace rrdma::rdma_cm
