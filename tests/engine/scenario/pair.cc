#include "pair.h"

#include <algorithm>

#include "base/assert.h"
#include "link/sim/sim_frame.h"

namespace rrdma::scenario {

using transport::QpState;
using transport::QpType;

namespace {

constexpr std::uint64_t kAddress = 0x7000'0000'0000;

}  // namespace

Side::Side(sim::World& in, const PairOptions& options, std::uint64_t with_pattern)
    : world(in), host(in.add_host(options.host)), pattern(with_pattern), memory(kMemoryOctets) {
  sim::fill_pattern(memory, pattern, 0);
  using namespace objects;
  auto registered =
      host.memory.register_region({.pd = &host.pd,
                                   .host = memory.data(),
                                   .length = memory.size(),
                                   .address = kAddress,
                                   .access = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic |
                                             kFlushGlobal | kFlushPersistent | kWindowBind});
  RRDMA_ASSERT(registered.ok());
  region = *registered;
  CompletionListener* listener = this;
  queue = std::make_unique<CompletionQueue>(options.completion_entries, listener);
  LimitListener* limit_listener = this;
  if (options.shared_entries != 0)
    shared = std::make_unique<ReceiveQueue>(options.shared_entries, 2, limit_listener);
  transport::QpInit init;
  init.type = options.type;
  init.pd = &host.pd;
  init.send_cq = init.receive_cq = queue.get();
  init.shared_receive_queue = shared.get();
  init.send_entries = options.queue_entries;
  init.receive_entries = shared ? 0 : options.queue_entries;
  init.send_sges = init.receive_sges = 2;
  init.inline_octets = 64;
  init.signal_all = options.signal_all;
  qp = &host.engine.create_qp(init, host.fresh_qpn());
  host.application = this;
}

Side::~Side() {
  destroy();
  host.application = nullptr;
}

void Side::destroy() {
  if (qp == nullptr) return;
  const wire::Qpn qpn = qp->qpn;
  host.engine.destroy_qp(*qp);
  qp = nullptr;
  queue->purge(qpn);
}

bool Side::modify(transport::QpAttributes attributes, std::uint32_t mask) {
  const bool ok = host.engine.modify_qp(*qp, attributes, mask, world.now()).ok();
  host.wake(world.now());
  return ok;
}

bool Side::to_state(QpState state) {
  transport::QpAttributes attributes;
  attributes.state = state;
  return modify(attributes, transport::kAttrState);
}

objects::SendEntry Side::entry(std::uint64_t id, objects::SendOpcode opcode, std::uint32_t remote,
                               std::uint8_t flags) const {
  objects::SendEntry made;
  made.wr_id = id;
  made.opcode = opcode;
  made.flags = flags;
  if (peer != nullptr) made.rkey = wire::RKey{peer->region->key};
  made.remote_address = kAddress + remote;
  return made;
}

transport::PostError Side::post(const objects::SendEntry& made, std::uint32_t local, std::uint32_t length) {
  objects::Sge sge{kAddress + local, length, wire::LKey{region->key}};
  if (made.is_inline()) sge.address = reinterpret_cast<std::uintptr_t>(memory.data() + local);
  host.wake(world.now());
  return host.engine.post_send(*qp, {made, {&sge, 1}}, world.now());
}

void Side::request(std::uint64_t id, objects::SendOpcode opcode, std::uint32_t local, std::uint32_t length,
                   std::uint32_t remote, std::uint8_t flags) {
  RRDMA_ASSERT(post(entry(id, opcode, remote, flags), local, length) == transport::PostError::kNone);
}

void Side::fetch_add(std::uint64_t id, std::uint32_t into, std::uint32_t at, std::uint64_t operand) {
  objects::SendEntry made = entry(id, objects::SendOpcode::kFetchAdd, at);
  made.atomic.compare_add = operand;
  RRDMA_ASSERT(post(made, into, 8) == transport::PostError::kNone);
}

void Side::receive(std::uint64_t id, std::uint32_t at, std::uint32_t length) {
  const objects::Sge sge{kAddress + at, length, wire::LKey{region->key}};
  if (shared) {
    RRDMA_ASSERT(shared->post(id, {&sge, 1}));
  } else {
    RRDMA_ASSERT(host.engine.post_receive(*qp, id, {&sge, 1}, world.now()) == transport::PostError::kNone);
  }
}

std::vector<std::uint64_t> Side::ids() const {
  std::vector<std::uint64_t> list;
  for (const auto& completion : completions) list.push_back(completion.wr_id);
  return list;
}

std::string Side::statuses() const {
  std::string text;
  for (const auto& completion : completions) {
    if (!text.empty()) text += ", ";
    text += std::to_string(completion.wr_id) + ": " + std::string(objects::describe(completion.status));
  }
  return text;
}

std::size_t Side::count(transport::QpEvent event) const {
  return static_cast<std::size_t>(std::count(events.begin(), events.end(), event));
}

bool Side::holds(std::uint32_t at, const Side& other, std::uint32_t from, std::uint32_t length) const {
  std::vector<std::uint8_t> expected(length);
  sim::fill_pattern(expected, other.pattern, from);
  return std::equal(expected.begin(), expected.end(), memory.begin() + at);
}

bool Side::untouched(std::uint32_t at, std::uint32_t length) const { return holds(at, *this, at, length); }

bool Side::on_turn(sim::Host&, Instant) {
  if (!polls) return false;
  bool any = false;
  while (const objects::Completion* next = queue->peek()) {
    completions.push_back(*next);
    queue->pop();
    any = true;
    if (on_each) on_each(completions.back());
  }
  return any;
}

void Side::on_request_failed(sim::Host&, transport::QueuePair& of, const transport::FailedRequest& failed) {
  const auto first = of.attempts.last.begin();
  failures.push_back({failed, of.attempts.since, {first, first + of.req.attempts}});
}

void Side::on_qp_event(sim::Host&, transport::QueuePair&, transport::QpEvent event) {
  events.push_back(event);
}

Pair::Pair(const PairOptions& options) : world(1), a(world, options, 0xa), b(world, options, 0xb) {
  a.peer = &b;
  b.peer = &a;
  world.network().set_filter([this](const link::PacketView& packet, Instant) {
    link::SimPacket parsed;
    if (link::parse_sim_frame(packet.frame, packet.to, parsed) != link::SimVerdict::kGood) return true;
    for (Loss& loss : losses_) {
      if (loss.from != packet.from || loss.left == 0 || !loss.match(parsed.packet.headers)) continue;
      if (loss.skip != 0) {
        --loss.skip;
        continue;
      }
      --loss.left;
      return false;
    }
    return true;
  });
  using namespace transport;
  for (Side* side : {&a, &b}) {
    const Side& other = *side->peer;
    QpAttributes attributes;
    attributes.state = QpState::kInit;
    attributes.access_flags = options.access;
    attributes.qkey = wire::QKey{0x1234};
    std::uint32_t mask = kAttrState | kAttrPKeyIndex | kAttrPort |
                         (options.type == QpType::kUd ? kAttrQKey : kAttrAccessFlags);
    RRDMA_ASSERT(side->modify(attributes, mask));
    attributes.state = QpState::kReadyToReceive;
    attributes.path = side->host.path_to(other.host, false, side->qp->qpn, other.qp->qpn);
    attributes.path_mtu = options.mtu_code;
    attributes.destination = other.qp->qpn;
    attributes.receive_psn = wire::Psn(side == &a ? options.psn_b : options.psn_a);
    attributes.max_destination_reads = options.max_destination_reads;
    attributes.min_rnr_timer = options.min_rnr_timer;
    mask = kAttrState;
    if (options.type != QpType::kUd) mask |= kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn;
    if (options.type == QpType::kRc) mask |= kAttrMaxDestinationReads | kAttrMinRnrTimer;
    RRDMA_ASSERT(side->modify(attributes, mask));
    attributes.state = QpState::kReadyToSend;
    attributes.send_psn = wire::Psn(side == &a ? options.psn_a : options.psn_b);
    attributes.timeout = options.timeout;
    attributes.retry_count = options.retry_count;
    attributes.rnr_retry = options.rnr_retry;
    attributes.max_reads = options.max_reads;
    mask = kAttrState | kAttrSendPsn;
    if (options.type == QpType::kRc) mask |= kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads;
    RRDMA_ASSERT(side->modify(attributes, mask));
  }
}

void Pair::lose(const Side& from, Match match, std::uint32_t count, std::uint32_t skip) {
  losses_.push_back({from.host.index(), std::move(match), skip, count});
}

void Pair::run(Duration time) { world.run_for(time); }

}  // namespace rrdma::scenario
