// Exported, so that rrdma::comm finds the calls of verbs.h and rdma_cma.h here.
#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#include "scripted_device.h"

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#undef ibv_query_port
#undef ibv_reg_mr

namespace rrdma::fuzz {
namespace {

constexpr std::uint32_t kLargestQueue = 1024;
constexpr std::uint32_t kQueueKey = 0x11111111;
constexpr std::size_t kRoutingHeader = 40;

ScriptedDevice& device() { return ScriptedDevice::the(); }

std::vector<std::byte> gathered(const ibv_send_wr& wr) {
  std::vector<std::byte> octets;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& part = wr.sg_list[i];
    if ((wr.send_flags & IBV_SEND_INLINE) == 0) device().check(part, false);
    const auto* at = reinterpret_cast<const std::byte*>(part.addr);
    octets.insert(octets.end(), at, at + part.length);
  }
  return octets;
}

ScriptedRequest request_of(const ibv_send_wr& wr) {
  ScriptedRequest request;
  request.id = wr.wr_id;
  request.opcode = wr.opcode;
  request.signaled = (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  request.remote_address = wr.wr.rdma.remote_addr;  // of an atomic operation as well: the first member
  switch (wr.opcode) {
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      for (int i = 0; i < wr.num_sge; ++i) device().check(wr.sg_list[i], true);
      request.into.assign(wr.sg_list, wr.sg_list + wr.num_sge);
      break;
    default: request.octets = gathered(wr);
  }
  return request;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  auto& pair = *static_cast<ScriptedPair*>(qp);
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (pair.sends.size() >= pair.send_room) return ENOMEM;
    pair.sends.push_back(request_of(*wr));
    if (device().posted && !pair.failed) {
      const ScriptedRequest copy = pair.sends.back();
      device().posted(pair, copy);
    }
    if (pair.failed) {
      device().complete(pair, 1, IBV_WC_WR_FLUSH_ERR);
    } else if (device().automatic) {
      device().complete(pair, 1);
    }
  }
  *bad = nullptr;
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  auto& pair = *static_cast<ScriptedPair*>(qp);
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (pair.receives.size() >= pair.receive_room) return ENOMEM;
    require(wr->num_sge == 1, "a receive has one part");
    device().check(wr->sg_list[0], true);
    pair.receives.push_back({wr->wr_id, wr->sg_list[0]});
  }
  *bad = nullptr;
  if (pair.failed) device().fail(pair);
  return 0;
}

int poll_cq(ibv_cq* queue, int most, ibv_wc* into) {
  auto& completions = static_cast<ScriptedQueue*>(queue)->completions;
  int count = 0;
  for (; count < most && !completions.empty(); ++count) {
    into[count] = completions.front();
    completions.pop_front();
  }
  return count;
}

int req_notify_cq(ibv_cq*, int) { return 0; }

ibv_device& hardware() {
  static ibv_device one{};
  return one;
}

ibv_context& verbs() {
  static ibv_context context = [] {
    ibv_context made{};
    made.device = &hardware();
    made.ops.poll_cq = &poll_cq;
    made.ops.req_notify_cq = &req_notify_cq;
    made.ops.post_send = &post_send;
    made.ops.post_recv = &post_recv;
    return made;
  }();
  return context;
}

sockaddr_in address(std::uint32_t host, std::uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  made.sin_addr.s_addr = htonl(host);
  return made;
}

void push(ScriptedQueue& queue, const ibv_wc& completion) {
  require(queue.completions.size() < static_cast<std::size_t>(queue.cqe), "the completion queue overflows");
  queue.completions.push_back(completion);
}

// Removes the completions of a queue pair that is destroyed, as devices do.
void forget(ibv_cq* queue, std::uint32_t number) {
  std::erase_if(static_cast<ScriptedQueue*>(queue)->completions,
                [number](const ibv_wc& wc) { return wc.qp_num == number; });
}

ScriptedId* new_id(rdma_event_channel* channel, void* context, rdma_port_space space) {
  auto* id = new ScriptedId{};
  id->channel = channel;
  id->context = context;
  id->ps = space;
  id->route.addr.src_sin = address(0x0a000001, 7000);
  id->route.addr.dst_sin = address(0x0a000002, 7001);
  device().ids_.push_back(id);
  return id;
}

ScriptedId& own(rdma_cm_id* id) { return *static_cast<ScriptedId*>(id); }

void tell(ScriptedId& id, const rdma_conn_param* parameters) {
  if (parameters == nullptr || parameters->private_data == nullptr) return;
  const auto* at = static_cast<const std::byte*>(parameters->private_data);
  id.told.assign(at, at + parameters->private_data_len);
}

}  // namespace

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

ScriptedDevice& ScriptedDevice::the() {
  static ScriptedDevice one;
  return one;
}

void ScriptedDevice::require_empty() const {
  require(ids_.empty(), "an identifier was not destroyed");
  require(pairs_.empty(), "a queue pair was not destroyed");
  require(regions_.empty(), "memory is still registered");
  require(others_ == 0, "a queue, domain, channel or address handle was not destroyed");
}

std::size_t ScriptedDevice::registered() const {
  std::size_t octets = 0;
  for (const auto& [key, region] : regions_) octets += region->length;
  return octets;
}

ScriptedId* ScriptedDevice::find(ScriptedId::State state) const {
  for (ScriptedId* id : ids_) {
    if (id->state == state) return id;
  }
  return nullptr;
}

ScriptedId* ScriptedDevice::ask(ScriptedBytes hello) {
  ScriptedId* listener = find(ScriptedId::State::kListening);
  if (listener == nullptr) return nullptr;
  ScriptedId* id = new_id(listener->channel, listener->context, listener->ps);
  id->verbs = &verbs();
  id->state = ScriptedId::State::kAsked;
  raise(*id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, hello);
  events_.back()->listen_id = listener;
  return id;
}

void ScriptedDevice::establish(ScriptedId& id, ScriptedBytes hello) {
  id.state = ScriptedId::State::kOpen;
  raise(id, RDMA_CM_EVENT_ESTABLISHED, 0, hello);
}

void ScriptedDevice::raise(ScriptedId& id, rdma_cm_event_type kind, int status, ScriptedBytes told) {
  auto* event = new Event{};
  event->id = &id;
  event->event = kind;
  event->status = status;
  event->octets.assign(told.begin(), told.end());
  if (id.ps == RDMA_PS_TCP) {
    event->param.conn.private_data = event->octets.empty() ? nullptr : event->octets.data();
    event->param.conn.private_data_len = static_cast<std::uint8_t>(event->octets.size());
    event->param.conn.responder_resources = event->param.conn.initiator_depth = 4;
  }
  events_.push_back(event);
  const std::uint64_t one = 1;
  require(::write(channel_->fd, &one, sizeof(one)) == sizeof(one), "an event is announced");
}

void ScriptedDevice::check(const ibv_sge& part, bool written) const {
  if (part.length == 0) return;
  const auto found = regions_.find(part.lkey);
  require(found != regions_.end(), "a request has memory that is not registered");
  const auto begin = reinterpret_cast<std::uintptr_t>(found->second->addr);
  require(part.addr >= begin && part.addr + part.length <= begin + found->second->length,
          "a request exceeds its region");
  static_cast<void>(written);
}

void ScriptedDevice::finish(ScriptedPair& pair, const ScriptedRequest& request, ibv_wc_status status) const {
  if (status == IBV_WC_SUCCESS) {
    for (const ibv_sge& part : request.into) {
      check(part, true);
      std::memset(reinterpret_cast<void*>(part.addr), 0x5a, part.length);
    }
    if (!request.signaled) return;
  }
  ibv_wc completion{};
  completion.wr_id = request.id;
  completion.status = status;
  completion.qp_num = pair.qp_num;
  push(*static_cast<ScriptedQueue*>(pair.send_cq), completion);
}

void ScriptedDevice::complete(ScriptedPair& pair, std::size_t count, ibv_wc_status status) {
  for (; count != 0 && !pair.sends.empty(); --count) {
    const ScriptedRequest request = std::move(pair.sends.front());
    pair.sends.pop_front();
    finish(pair, request, status);
    if (status != IBV_WC_SUCCESS && !pair.failed) return fail(pair);
  }
}

void ScriptedDevice::fail(ScriptedPair& pair) {
  pair.failed = true;
  while (!pair.sends.empty()) complete(pair, 1, IBV_WC_WR_FLUSH_ERR);
  for (const ScriptedPair::Receive& receive : pair.receives) {
    ibv_wc completion{};
    completion.wr_id = receive.id;
    completion.status = IBV_WC_WR_FLUSH_ERR;
    completion.qp_num = pair.qp_num;
    push(*static_cast<ScriptedQueue*>(pair.recv_cq), completion);
  }
  pair.receives.clear();
}

bool ScriptedDevice::deliver(ScriptedPair& pair, ScriptedBytes octets, std::uint32_t source) {
  if (pair.failed || pair.receives.empty()) return false;
  const ScriptedPair::Receive receive = pair.receives.front();
  pair.receives.pop_front();
  const std::size_t before = pair.qp_type == IBV_QPT_UD ? kRoutingHeader : 0;
  ibv_wc completion{};
  completion.wr_id = receive.id;
  completion.qp_num = pair.qp_num;
  completion.opcode = IBV_WC_RECV;
  completion.byte_len = static_cast<std::uint32_t>(before + octets.size());
  completion.src_qp = source;
  completion.wc_flags = before != 0 ? IBV_WC_GRH : 0;
  check(receive.into, true);
  if (before + octets.size() > receive.into.length) {
    if (before != 0) {  // a datagram that does not fit is lost
      pair.receives.push_front(receive);
      return false;
    }
    completion.status = IBV_WC_LOC_LEN_ERR;
    push(*static_cast<ScriptedQueue*>(pair.recv_cq), completion);
    fail(pair);
    return true;
  }
  if (!octets.empty())
    std::memcpy(reinterpret_cast<std::byte*>(receive.into.addr) + before, octets.data(), octets.size());
  push(*static_cast<ScriptedQueue*>(pair.recv_cq), completion);
  return true;
}

bool ScriptedDevice::deliver_immediate(ScriptedPair& pair, std::uint32_t immediate) {
  if (pair.failed || pair.receives.empty()) return false;
  ibv_wc completion{};
  completion.wr_id = pair.receives.front().id;
  completion.qp_num = pair.qp_num;
  completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  completion.wc_flags = IBV_WC_WITH_IMM;
  completion.imm_data = htonl(immediate);
  pair.receives.pop_front();
  push(*static_cast<ScriptedQueue*>(pair.recv_cq), completion);
  return true;
}

}  // namespace rrdma::fuzz

using namespace rrdma::fuzz;

// ---- libibverbs ----

extern "C" {
#pragma GCC visibility push(default)

void ibv_ack_cq_events(ibv_cq*, unsigned) {}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
  ++device().others_;
  auto* domain = new ibv_pd{};
  domain->context = context;
  return domain;
}
int ibv_dealloc_pd(ibv_pd* domain) {
  require(device().regions_.empty(), "a domain is destroyed before its regions");
  --device().others_;
  delete domain;
  return 0;
}
ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr*) {
  ++device().others_;
  auto* handle = new ibv_ah{};
  handle->context = domain->context;
  handle->pd = domain;
  return handle;
}
int ibv_destroy_ah(ibv_ah* handle) {
  --device().others_;
  delete handle;
  return 0;
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  ++device().others_;
  auto* channel = new ibv_comp_channel{};
  channel->context = context;
  channel->fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  --device().others_;
  ::close(channel->fd);
  delete channel;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* mark, ibv_comp_channel* channel, int) {
  ++device().others_;
  auto* queue = new ScriptedQueue{};
  queue->context = context;
  queue->channel = channel;
  queue->cq_context = mark;
  queue->cqe = entries;
  return queue;
}
int ibv_destroy_cq(ibv_cq* queue) {
  for (const ScriptedPair* pair : device().pairs_)
    require(pair->send_cq != queue && pair->recv_cq != queue, "a queue is destroyed before its queue pair");
  --device().others_;
  delete static_cast<ScriptedQueue*>(queue);
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq**, void**) {
  errno = EAGAIN;
  return -1;
}
const char* ibv_get_device_name(ibv_device*) { return "scripted0"; }
int ibv_init_ah_from_wc(ibv_context*, uint8_t, ibv_wc* completion, ibv_grh*, ibv_ah_attr* attributes) {
  *attributes = {};
  if ((completion->wc_flags & IBV_WC_GRH) != 0) return 0;
  errno = EINVAL;
  return -1;
}
int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  if ((mask & IBV_QP_STATE) != 0 && attributes->qp_state == IBV_QPS_ERR)
    device().fail(*static_cast<ScriptedPair*>(pair));
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->max_qp_wr = kLargestQueue;
  attributes->max_cqe = 1 << 16;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 16;
  attributes->atomic_cap = IBV_ATOMIC_HCA;
  attributes->phys_port_cnt = 1;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t, int, ibv_gid* gid) {
  constexpr std::uint8_t kGid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  std::memcpy(gid->raw, kGid, sizeof(kGid));
  return 0;
}
int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* attributes) {
  auto* port = reinterpret_cast<ibv_port_attr*>(attributes);
  port->state = IBV_PORT_ACTIVE;
  port->max_mtu = port->active_mtu = IBV_MTU_4096;
  port->gid_tbl_len = 1;
  return 0;
}
int ibv_query_qp(ibv_qp*, ibv_qp_attr* attributes, int, ibv_qp_init_attr*) {
  *attributes = {};
  attributes->qkey = kQueueKey;
  return 0;
}
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* memory, size_t length, int) {
  auto* region = new ibv_mr{};
  region->context = domain->context;
  region->pd = domain;
  region->addr = memory;
  region->length = length;
  region->lkey = region->rkey = device().next_key_++;
  device().regions_[region->lkey] = region;
  return region;
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* memory, size_t length, uint64_t, unsigned access) {
  return ibv_reg_mr(domain, memory, length, static_cast<int>(access));
}
int ibv_dereg_mr(ibv_mr* region) {
  require(device().regions_.erase(region->lkey) == 1, "a region is released twice");
  delete region;
  return 0;
}
const char* ibv_wc_status_str(ibv_wc_status) { return "a status"; }

// ---- librdmacm ----

rdma_event_channel* rdma_create_event_channel() {
  ++device().others_;
  auto* channel = new rdma_event_channel{};
  channel->fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return device().channel_ = channel;
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  --device().others_;
  for (ScriptedDevice::Event* event : device().events_) delete event;
  device().events_.clear();
  ::close(channel->fd);
  delete channel;
}
ibv_context** rdma_get_devices(int* count) {
  static ibv_context* list[] = {&verbs(), nullptr};
  *count = 1;
  return list;
}
void rdma_free_devices(ibv_context**) {}
int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  *id = new_id(channel, context, space);
  return 0;
}
int rdma_destroy_id(rdma_cm_id* id) {
  require(id->qp == nullptr, "an identifier is destroyed before its queue pair");
  ScriptedDevice& all = device();
  if (all.leaving) all.leaving(own(id));
  std::erase_if(all.events_, [id, &all](ScriptedDevice::Event* event) {
    if (event->id != id && event->listen_id != id) return false;
    // A request that nobody has seen goes away with its listener.
    if (event->id != id) {
      std::erase(all.ids_, static_cast<ScriptedId*>(event->id));
      delete static_cast<ScriptedId*>(event->id);
    }
    delete event;
    return true;
  });
  std::erase(all.ids_, &own(id));
  delete &own(id);
  return 0;
}
int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  id->channel = channel;
  return 0;
}
int rdma_bind_addr(rdma_cm_id* id, sockaddr*) {
  id->verbs = &verbs();
  return 0;
}
int rdma_listen(rdma_cm_id* id, int) {
  own(id).state = ScriptedId::State::kListening;
  return 0;
}
int rdma_resolve_addr(rdma_cm_id* id, sockaddr*, sockaddr*, int) {
  id->verbs = &verbs();
  device().raise(own(id), RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}
int rdma_resolve_route(rdma_cm_id* id, int) {
  device().raise(own(id), RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}
int rdma_connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  tell(own(id), parameters);
  own(id).state = ScriptedId::State::kConnecting;
  return 0;
}
int rdma_accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  tell(own(id), parameters);
  if (id->ps == RDMA_PS_TCP) device().establish(own(id));
  return 0;
}
int rdma_reject(rdma_cm_id* id, const void*, uint8_t) {
  own(id).state = ScriptedId::State::kOver;
  return 0;
}
int rdma_disconnect(rdma_cm_id* id) {
  if (own(id).state == ScriptedId::State::kOpen) device().raise(own(id), RDMA_CM_EVENT_DISCONNECTED);
  own(id).state = ScriptedId::State::kOver;
  return 0;
}
int rdma_create_qp(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr* attributes) {
  if (attributes->cap.max_send_wr > kLargestQueue || attributes->cap.max_recv_wr > kLargestQueue) {
    errno = EINVAL;
    return -1;
  }
  auto* pair = new ScriptedPair{};
  pair->context = &verbs();
  pair->pd = domain;
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  pair->qp_type = attributes->qp_type;
  pair->qp_num = device().next_number_++;
  pair->send_room = attributes->cap.max_send_wr;
  pair->receive_room = attributes->cap.max_recv_wr;
  device().pairs_.insert(pair);
  id->qp = pair;
  return 0;
}
void rdma_destroy_qp(rdma_cm_id* id) {
  ScriptedPair* pair = own(id).pair();
  forget(pair->send_cq, pair->qp_num);
  forget(pair->recv_cq, pair->qp_num);
  device().pairs_.erase(pair);
  delete pair;
  id->qp = nullptr;
}
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  auto& events = device().events_;
  if (events.empty()) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto size = ::read(channel->fd, &count, sizeof(count));
    errno = EAGAIN;
    return -1;
  }
  *event = events.front();
  events.pop_front();
  return 0;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  delete static_cast<ScriptedDevice::Event*>(event);
  return 0;
}
int rdma_join_multicast(rdma_cm_id* id, sockaddr*, void* context) {
  device().raise(own(id), RDMA_CM_EVENT_MULTICAST_JOIN);
  device().events_.back()->param.ud.private_data = context;
  return 0;
}
int rdma_leave_multicast(rdma_cm_id*, sockaddr*) { return 0; }

#pragma GCC visibility pop
}  // extern "C"
