#include "kernel/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <new>

#include "control/client/daemon_client.h"
#include "control/slot.h"
#include "control/verbatim_mads.h"
#include "host/clock.h"
#include "transport/qp/qp_state.h"

namespace rrdma::kernel {
namespace {

constexpr std::size_t kRequestsAtOnce = 64;
constexpr std::uint32_t kDoorbellsAtOnce = 64;

wire::Gid gid_of(const std::uint8_t (&octets)[16]) {
  wire::Gid gid;
  std::copy(std::begin(octets), std::end(octets), gid.octets.begin());
  return gid;
}

// enum ib_event_type of the kernel.
std::uint32_t number_of(transport::QpEvent event) {
  switch (event) {
    case transport::QpEvent::kFatal: return 1;
    case transport::QpEvent::kRequestError: return 2;
    case transport::QpEvent::kAccessError: return 3;
    case transport::QpEvent::kCommunicationEstablished: return 4;
    case transport::QpEvent::kSendQueueDrained: return 5;
    case transport::QpEvent::kLastReceiveReached: return 16;
  }
  return 1;
}

transport::QpAttributes attributes_of(const rrdma_qp_attributes& from) {
  transport::QpAttributes to;
  to.state = static_cast<transport::QpState>(from.state);
  to.current_state = static_cast<transport::QpState>(from.current_state);
  to.drain_notify = from.drain_notify != 0;
  to.access_flags = from.access_flags;
  to.pkey_index = from.pkey_index;
  to.port = from.port;
  to.qkey = {from.qkey};
  to.path_mtu = static_cast<std::uint8_t>(from.path_mtu);
  to.timeout = from.timeout;
  to.retry_count = from.retry_count;
  to.rnr_retry = from.rnr_retry;
  to.min_rnr_timer = from.min_rnr_timer;
  to.receive_psn = wire::Psn(from.rq_psn);
  to.send_psn = wire::Psn(from.sq_psn);
  to.max_reads = from.max_reads;
  to.max_destination_reads = from.max_destination_reads;
  to.destination = wire::Qpn(from.dest_qpn);
  return to;
}

bool is_known_type(std::uint32_t type) {
  using transport::QpType;
  return type == static_cast<std::uint32_t>(QpType::kRc) || type == static_cast<std::uint32_t>(QpType::kUc) ||
         type == static_cast<std::uint32_t>(QpType::kUd);
}

}  // namespace

Server::Server(const Channel& channel, nic::Runtime& runtime, host::Device& device)
    : channel_(channel),
      runtime_(runtime),
      device_(device),
      lane_(runtime.lanes().first()),
      memory_(channel),
      doorbells_(channel) {
  {
    const std::lock_guard all(runtime_.lanes());
    objects::MemoryTable& table = runtime_.lanes().memory();
    regions_ = std::make_unique<Regions>(channel_, table, table.add_kind(memory_));
    if (valid()) lane_.set_feed(this);
  }
  runtime_.lanes().set_qp_listener(this);
  runtime_.set_daemon_listener(this);
  claim_mads();
}

Server::~Server() {
  runtime_.set_daemon_listener(nullptr);
  runtime_.lanes().set_qp_listener(nullptr);
  {
    const std::lock_guard lock(lane_.mutex());
    lane_.set_feed(nullptr);
  }
  while (!qps_.empty()) (void)destroy_qp(qps_.begin()->first);
}

void Server::run() {
  std::array<rrdma_request, kRequestsAtOnce> room;
  for (;;) {
    const auto requests = channel_.read(room);
    if (requests.empty()) return;
    for (const rrdma_request& request : requests) handle(request);
    // This thread sleeps now.
    lane_.rely_on_thread();
  }
}

void Server::handle(const rrdma_request& request) {
  rrdma_reply reply{.tag = request.tag, .error = 0, .number = 0, .qp = {}};
  switch (request.op) {
    case RRDMA_OP_DOORBELL: return ring(request.handle);
    case RRDMA_OP_SEND_MAD: return send_mad(request.mad);
    case RRDMA_OP_CREATE_QP: reply.error = create_qp(request.handle, request.create_qp, reply.number); break;
    case RRDMA_OP_DESTROY_QP: reply.error = destroy_qp(request.handle); break;
    case RRDMA_OP_REGISTER:
    case RRDMA_OP_ALLOC_FAST:
    case RRDMA_OP_DEREGISTER:
    case RRDMA_OP_ALLOC_WINDOW:
    case RRDMA_OP_FREE_WINDOW:
    case RRDMA_OP_DESTROY_PD: reply.error = change_memory(request, reply.number); break;
    case RRDMA_OP_DESTROY_CQ:
    case RRDMA_OP_DESTROY_SRQ:
    case RRDMA_OP_ARM_SRQ: return change_queue(request);
    case RRDMA_OP_RESIZE_CQ: reply.error = resize_queue(request); break;
    default:
      QueuePair* const qp = find(request.handle);
      reply.error = qp != nullptr ? change_qp(*qp, request, reply.qp) : -ENOENT;
      break;
  }
  if (request.tag != 0) channel_.reply(reply);
}

int Server::change_memory(const rrdma_request& request, std::uint32_t& key) {
  const std::lock_guard all(runtime_.lanes());
  switch (request.op) {
    case RRDMA_OP_REGISTER: return regions_->add(request.handle, request.region, key);
    case RRDMA_OP_ALLOC_FAST: return regions_->add_fast(request.handle, request.region, key);
    case RRDMA_OP_DEREGISTER: return regions_->remove(request.handle);
    case RRDMA_OP_ALLOC_WINDOW: return regions_->add_window(request.handle, request.window, key);
    case RRDMA_OP_FREE_WINDOW: return regions_->remove_window(request.handle);
    default: regions_->end_domain(request.handle); return 0;
  }
}

void Server::change_queue(const rrdma_request& request) {
  const std::lock_guard lock(lane_.mutex());
  // A queue in use stays, whatever the kernel says.
  if (request.op == RRDMA_OP_DESTROY_CQ) {
    const auto found = queues_.find(request.handle);
    if (found != queues_.end() && found->second->queue().users == 0) queues_.erase(found);
  } else if (request.op == RRDMA_OP_DESTROY_SRQ) {
    const auto found = shared_.find(request.handle);
    if (found != shared_.end() && found->second->queue.users == 0) shared_.erase(found);
  } else if (const auto found = shared_.find(request.handle); found != shared_.end()) {
    found->second->queue.arm_limit(request.limit);
  }
}

int Server::resize_queue(const rrdma_request& request) {
  const auto found = queues_.find(request.handle);
  if (found == queues_.end()) return -ENOENT;
  // Datagrams whose doorbells wait complete before it, as on rxe: the program may count on them.
  for (const auto& [handle, qp] : qps_) {
    if (qp->datagram && qp->send_cq == found->second.get()) ring(handle);
  }
  const std::lock_guard lock(lane_.mutex());
  return found->second->resize(request.resize);
}

int Server::change_qp(QueuePair& qp, const rrdma_request& request, rrdma_qp_attributes& described) {
  switch (request.op) {
    case RRDMA_OP_MODIFY_QP: return modify_qp(qp, request.qp);
    case RRDMA_OP_QUERY_QP: describe_qp(qp, described); return 0;
    case RRDMA_OP_ATTACH_GROUP: return change_group(qp, gid_of(request.group.gid), true);
    case RRDMA_OP_DETACH_GROUP: return change_group(qp, gid_of(request.group.gid), false);
    default: return -EOPNOTSUPP;
  }
}

QueuePair* Server::find(std::uint32_t handle) {
  const auto found = qps_.find(handle);
  return found != qps_.end() ? found->second.get() : nullptr;
}

void Server::ring(std::uint32_t handle) {
  QueuePair* const qp = find(handle);
  if (qp == nullptr) return;
  // A program may write new destinations for ever; in its ring there are no more than slots.
  for (std::uint32_t most = qp->sends.slots(); most > 0; --most) {
    {
      const std::lock_guard lock(lane_.mutex());
      const Instant now = lane_.now();
      const bool all = take_sends(*qp, now);
      lane_.transmit(now);
      if (all) return;
    }
    learn_route(*qp, *qp->unknown_route());
  }
}

bool Server::take_sends(QueuePair& qp, Instant now) {
  qp.take_sends(lane_.engine(), *regions_, now);
  qp.flush_receives(lane_.engine(), now);
  return qp.unknown_route() == nullptr;
}

// Not all at once: the links have their turn, and then the rest is still there.
void Server::take(Instant now) {
  for (std::uint32_t most = kDoorbellsAtOnce; most > 0; --most) {
    const auto handle = doorbells_.take();
    if (!handle) return;
    QueuePair* const qp = find(*handle);
    if (qp != nullptr && !take_sends(*qp, now)) channel_.postpone(*handle);
  }
}

Completions* Server::completions(const rrdma_queue_form& form) {
  std::unique_ptr<Completions>& queue = queues_[form.handle];
  if (queue == nullptr) {
    queue = std::make_unique<Completions>(channel_, form, [this](wire::Qpn qpn) {
      const auto found = by_number_.find(qpn.value);
      return found != by_number_.end() ? found->second : nullptr;
    });
  }
  if (queue->valid()) return queue.get();
  queues_.erase(form.handle);
  return nullptr;
}

SharedReceives* Server::shared_receives(const rrdma_create_qp& form, std::uint32_t grant_key) {
  std::unique_ptr<SharedReceives>& queue = shared_[form.srq.handle];
  if (queue == nullptr) {
    const QueueLimits limits{.sges = form.srq.sges, .grant_key = grant_key};
    queue = std::make_unique<SharedReceives>(channel_, form.srq, limits, regions_->domain(form.srq_pd));
    queue->queue.arm_limit(form.srq_limit);
  }
  if (queue->valid()) return queue.get();
  shared_.erase(form.srq.handle);
  return nullptr;
}

int Server::create_qp(std::uint32_t handle, const rrdma_create_qp& form, std::uint32_t& qpn) {
  if (!is_known_type(form.type)) return -EOPNOTSUPP;
  if (qps_.contains(handle)) return -EEXIST;
  const std::lock_guard all(runtime_.lanes());
  std::uint32_t grant_key = 0, srq_grant_key = 0;
  if (form.in_kernel != 0) {
    grant_key = regions_->grant_key(form.pd);
    if (form.srq.handle != 0) srq_grant_key = regions_->grant_key(form.srq_pd);
    if (grant_key == 0) return -ENOMEM;
  }
  auto qp = std::make_unique<QueuePair>(channel_, handle, form, grant_key);
  qp->send_cq = completions(form.send_cq);
  qp->receive_cq = completions(form.receive_cq);
  if (form.srq.handle != 0) qp->shared = shared_receives(form, srq_grant_key);
  if (qp->send_cq == nullptr || qp->receive_cq == nullptr || !qp->valid()) return -ENOMEM;
  const auto number = lane_.allocate_qpn();
  if (!number) return -ENOMEM;
  try {
    qp->engine_qp = &lane_.engine().create_qp(
        {.type = static_cast<transport::QpType>(form.type),
         .pd = &regions_->domain(form.pd),
         .send_cq = &qp->send_cq->queue(),
         .receive_cq = &qp->receive_cq->queue(),
         .shared_receive_queue = qp->shared != nullptr ? &qp->shared->queue : nullptr,
         .send_entries = qp->sends.slots(),
         .receive_entries = qp->shared != nullptr ? 0 : qp->receives.slots(),
         .send_sges = std::max(form.send_sges, 1u),
         .receive_sges = std::max(form.receive_sges, 1u),
         .inline_octets = form.inline_octets,
         .signal_all = form.signal_all != 0,
         .device = runtime_.device_number(device_),
         .owner = qp.get()},
        *number);
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
  if (qp->shared == nullptr) qp->engine_qp->receive_queue.set_source(&qp->receives);
  qp->engine_qp->port_mtu = transport::mtu_octets(device_.port().mtu_code);
  qpn = number->value;
  by_number_[qpn] = qp.get();
  qps_[handle] = std::move(qp);
  return 0;
}

int Server::destroy_qp(std::uint32_t handle) {
  const auto found = qps_.find(handle);
  if (found == qps_.end()) return -ENOENT;
  QueuePair& qp = *found->second;
  const std::lock_guard lock(lane_.mutex());
  lane_.send_held();
  by_number_.erase(qp.engine_qp->qpn.value);
  lane_.engine().destroy_qp(*qp.engine_qp);
  qps_.erase(found);
  return 0;
}

std::uint32_t Server::gid_index(const wire::Gid& local) const {
  const auto gids = device_.gids();
  const auto found = std::find_if(gids.begin(), gids.end(), [&](const host::GidEntry& entry) {
    return entry.valid && entry.gid == local;
  });
  return found != gids.end() ? found->index : 0;
}

Result<objects::Path, Problem> Server::resolve(const rrdma_address& address, wire::Qpn local,
                                               wire::Qpn remote) {
  return lane_.resolve(device_, {.remote = gid_of(address.remote),
                                 .local_gid_index = gid_index(gid_of(address.local)),
                                 .flow_label = address.flow_label & 0xfffffu,
                                 .hop_limit = address.hop_limit,
                                 .traffic_class = address.traffic_class,
                                 .service_level = address.service_level,
                                 .local_qpn = local,
                                 .remote_qpn = remote});
}

void Server::learn_route(QueuePair& qp, const DatagramRoute& route) {
  const auto path = lane_.resolve(device_, {.remote = route.remote,
                                            .local_gid_index = gid_index(route.local),
                                            .flow_label = route.flow_label,
                                            .hop_limit = route.hop_limit,
                                            .traffic_class = route.traffic_class,
                                            .datagram = true});
  // An address without a path: the datagram is lost on the way, as on any network.
  objects::Path way = path ? *path : objects::Path{};
  const std::lock_guard lock(lane_.mutex());
  qp.learn(route, *new objects::AddressHandle{.pd = qp.engine_qp->pd, .path = way});
}

int Server::modify_qp(QueuePair& qp, const rrdma_qp_attributes& from) {
  transport::QpAttributes to = attributes_of(from);
  const std::uint32_t mask = from.mask;
  {
    // Check the rest before resolving the path, which may take long.
    const std::lock_guard lock(lane_.mutex());
    if (!transport::check_transition(qp.engine_qp->type, qp.engine_qp->state, to, mask)) return -EINVAL;
  }
  if ((mask & transport::kAttrPath) != 0) {
    const auto remote = (mask & transport::kAttrDestinationQpn) != 0 ? to.destination : qp.engine_qp->remote;
    auto path = resolve(from.address, qp.engine_qp->qpn, remote);
    if (!path) return -(path.error().error != 0 ? path.error().error : EINVAL);
    to.path = *path;
  }
  {
    const std::lock_guard lock(lane_.mutex());
    lane_.send_held();
    const Instant now = host::now();
    if (!lane_.engine().modify_qp(*qp.engine_qp, to, mask, now)) return -EINVAL;
    if (qp.engine_qp->state == transport::QpState::kReset) qp.reset();
    lane_.transmit(now);
  }
  ring(qp.handle);  // requests that waited for this state
  return 0;
}

void Server::describe_qp(const QueuePair& qp, rrdma_qp_attributes& to) {
  const std::lock_guard lock(lane_.mutex());
  const transport::QueuePair& engine = *qp.engine_qp;
  const transport::QpAttributes& from = engine.attributes;
  to.state = to.current_state = static_cast<std::uint32_t>(engine.state);
  to.path_mtu = from.path_mtu;
  to.qkey = from.qkey.value;
  to.rq_psn = engine.resp.expected.value;
  to.sq_psn = engine.req.next.value;
  to.dest_qpn = engine.remote.value;
  to.access_flags = engine.access_flags;
  to.drain_notify = from.drain_notify ? 1 : 0;
  to.draining = engine.state == transport::QpState::kDrain && !engine.send_queue.empty() ? 1 : 0;
  to.max_reads = from.max_reads;
  to.max_destination_reads = from.max_destination_reads;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port = from.port;
  to.timeout = from.timeout;
  to.retry_count = from.retry_count;
  to.rnr_retry = from.rnr_retry;
}

int Server::change_group(QueuePair& qp, const wire::Gid& group, bool attach) {
  if (!qp.datagram || !group.is_multicast()) return -EINVAL;
  const control::Slot slot = control::slot_of_qpn(qp.engine_qp->qpn.value);
  const std::uint32_t interface = device_.identity().interface_index;
  if (attach && groups_[group] == 0) {
    if (const auto joined = runtime_.daemon().join_group(slot, interface, group); !joined)
      return -joined.error().error;
  }
  {
    const std::lock_guard lock(lane_.mutex());
    const bool changed = attach ? lane_.engine().attach_multicast(*qp.engine_qp, group)
                                : lane_.engine().detach_multicast(*qp.engine_qp, group);
    if (!changed) return attach ? 0 : -EINVAL;
    groups_[group] += attach ? 1u : ~0u;
  }
  if (groups_[group] != 0) return 0;
  groups_.erase(group);
  (void)runtime_.daemon().leave_group(slot, interface, group);
  return 0;
}

void Server::on_qp_event(transport::QueuePair& qp, transport::QpEvent event) {
  channel_.raise(static_cast<const QueuePair*>(qp.owner)->handle, number_of(event));
}

// ---- MADs: the connection manager is the kernel's; the daemon of this host has QP1. ----

void Server::claim_mads() { (void)runtime_.daemon().request<control::Done>(control::ClaimMads{}); }

void Server::send_mad(const rrdma_mad& mad) {
  control::SendMad message;
  message.local = gid_of(mad.address.local);
  message.remote = gid_of(mad.address.remote);
  message.interface_index = device_.identity().interface_index;
  std::copy(std::begin(mad.octets), std::end(mad.octets), message.octets.begin());
  (void)runtime_.daemon().request<control::Done>(message);
}

void Server::on_daemon_message(control::Received& message) {
  const auto arrived = message.as<control::MadArrived>();
  if (!arrived) return;
  rrdma_mad mad{};
  std::copy(arrived->local.octets.begin(), arrived->local.octets.end(), mad.address.local);
  std::copy(arrived->remote.octets.begin(), arrived->remote.octets.end(), mad.address.remote);
  mad.address.hop_limit = 64;
  std::copy(arrived->octets.begin(), arrived->octets.end(), mad.octets);
  channel_.deliver(mad);
}

void Server::on_daemon_changed() { claim_mads(); }

}  // namespace rrdma::kernel
