#include "sim/site.h"

#include <algorithm>

#include "base/assert.h"
#include "sim/endpoint.h"
#include "sim/engine_call.h"
#include "sim/exchange.h"

namespace rrdma::sim {
namespace {

constexpr std::size_t kQueues = 3;
constexpr std::uint32_t kWordSlots = 2;
constexpr std::uint32_t kWordsPerSlot = 4;
constexpr std::uint32_t kWordSlotOctets = 64;
constexpr std::uint64_t kAddressStep = std::uint64_t{1} << 40;

}  // namespace

Site::Site(Exchange& owner, Host& owner_host, std::uint32_t octets_max, std::uint32_t depth,
           std::uint32_t receive_slots, std::uint32_t completions)
    : exchange(owner),
      host(owner_host),
      arena(owner.prng().next() >> 24 << 20, kAddressStep * (host.index() + 1)) {
  const std::uint32_t octets = octets_max + 256;  // room for gaps between pieces
  sources = arena.add_pool(depth, octets);
  sinks = arena.add_pool(depth, octets);
  receives = arena.add_pool(receive_slots, octets);
  foreign = arena.add_pool(1, 1024);
  read_only = arena.add_pool(2, 1024);
  word_pool = arena.add_pool(kWordSlots, kWordSlotOctets);
  targets = arena.add_pool(depth, octets);
  arena.add_pool(2, octets);  // a guard that is never granted: writes beyond the targets land there
  arena.allocate();

  using namespace objects;
  local_region = enroll(sources, receives, host.pd, kLocalWrite);
  foreign_region =
      enroll(foreign, foreign, other_domain, kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic);
  read_only_region = enroll(read_only, read_only, host.pd, kLocalWrite | kRemoteRead);
  word_region = enroll(word_pool, word_pool, host.pd, kLocalWrite | kRemoteAtomic | kRemoteRead);
  target_region =
      enroll(targets, targets, host.pd,
             kLocalWrite | kRemoteWrite | kRemoteRead | kFlushGlobal | kFlushPersistent | kWindowBind);
  for (std::uint32_t i = 0; i < kWordSlots; ++i) {
    Slot* slot = arena.take(word_pool);
    for (std::uint32_t k = 0; k < kWordsPerSlot; ++k) {
      const std::uint64_t at = slot->at + k * 16;
      words.push_back({at, AtomicHistory(load_native<std::uint64_t>(arena.host(at)))});
    }
  }
  CompletionListener* listener = this;
  for (std::size_t i = 0; i < kQueues; ++i) {
    queues_.emplace_back().queue = std::make_unique<CompletionQueue>(completions, listener);
  }
  host.application = this;
}

Site::~Site() { host.application = nullptr; }

objects::MemoryRegion* Site::enroll(std::uint32_t first_pool, std::uint32_t last_pool,
                                    objects::ProtectionDomain& pd, std::uint32_t access) {
  const std::uint64_t begin = arena.pool_begin(first_pool);
  const std::uint64_t end = arena.pool_begin(last_pool) + arena.pool_length(last_pool);
  auto region = host.memory.register_region({.pd = &pd,
                                             .host = arena.host(begin),
                                             .length = end - begin,
                                             .address = arena.address(begin),
                                             .access = access});
  RRDMA_ASSERT(region.ok());
  return *region;
}

std::span<const objects::Sge> Site::sges(const Slot& slot, const Layout& layout, std::uint32_t key,
                                         SgeArray& list) const {
  for (std::uint32_t i = 0; i < layout.count; ++i) {
    list[i] = {arena.address(slot.at + layout.pieces[i].offset), layout.pieces[i].length, wire::LKey{key}};
  }
  return {list.data(), layout.count};
}

// ---- completions ----

void Site::collect() {
  for (Queue& queue : queues_) collect(queue);
}

void Site::collect(Queue& queue) {
  while (const objects::Completion* next = queue.queue->peek()) {
    const objects::Completion completion = *next;
    queue.queue->pop();
    const bool counts =
        !queue.armed_solicited || completion.solicited || completion.status != objects::Status::kSuccess;
    queue.event_due |= queue.armed && counts;
    inbox_.push_back(completion);
  }
  if (queue.event_due != queue.event_seen) {
    exchange.world().violate(queue.event_due
                                 ? "an armed completion queue got a completion and raised no event"
                                 : "a completion queue raised an event that no completion explains");
  }
  if (queue.event_seen) queue.armed = false;
  queue.event_due = queue.event_seen = false;
}

// REQUIRES: the queue was just emptied, so that later completions arrive after the arm.
void Site::rearm(Queue& queue) {
  if (queue.armed || exchange.prng().below(4) != 0) return;
  queue.armed = true;
  queue.armed_solicited = exchange.prng().below(2) == 0;
  queue.queue->arm(queue.armed_solicited);
}

bool Site::dispatch() {
  const bool any = !inbox_.empty();
  while (!inbox_.empty() && !exchange.world().violation()) {
    const objects::Completion completion = inbox_.front();
    inbox_.pop_front();
    exchange.world().log(completion.wr_id, std::uint64_t{static_cast<std::uint8_t>(completion.status)} << 56 |
                                               std::uint64_t{completion.byte_length} << 24 |
                                               completion.qpn.value);
    const auto endpoint = endpoints_.find(completion.qpn.value);
    if (endpoint == endpoints_.end()) {
      exchange.world().violate("host " + std::to_string(host.index()) + ": a completion for QP " +
                               std::to_string(completion.qpn.value) + ", which is destroyed or reset");
      break;
    }
    endpoint->second->on_completion(completion);
  }
  return any;
}

std::size_t Site::waiting_receives(wire::Qpn qpn, objects::Status status) {
  collect();
  return static_cast<std::size_t>(
      std::count_if(inbox_.begin(), inbox_.end(), [&](const objects::Completion& c) {
        return c.qpn == qpn && c.status == status && (c.wr_id & kReceiveIdBit) != 0;
      }));
}

bool Site::waiting_send_error(wire::Qpn qpn) {
  collect();
  return std::any_of(inbox_.begin(), inbox_.end(), [&](const objects::Completion& c) {
    return c.qpn == qpn && (c.wr_id & kReceiveIdBit) == 0 && c.status != objects::Status::kSuccess &&
           c.status != objects::Status::kFlushed;
  });
}

void Site::forget(wire::Qpn qpn) {
  for (Queue& queue : queues_) queue.queue->purge(qpn);
  endpoints_.erase(qpn.value);
}

void Site::on_completion(objects::CompletionQueue& queue) {
  EngineCall::Pause pause;
  ++exchange.met().completion_events;
  for (Queue& own : queues_) {
    if (own.queue.get() == &queue) own.event_seen = true;
  }
}

void Site::on_overflow(objects::CompletionQueue&) {
  EngineCall::Pause pause;
  exchange.world().violate("host " + std::to_string(host.index()) +
                           ": a completion queue that is large enough ran over");
}

// ---- shared receive queue ----

void Site::size_shared(std::uint32_t entries, std::uint32_t list_max) {
  objects::LimitListener* listener = this;
  shared_queue_ = std::make_unique<objects::ReceiveQueue>(entries, list_max, listener);
  shared_receives_.resize(entries * 2);
}

bool Site::make_receive(Receive& receive, std::uint32_t octets, std::uint32_t pieces_max) {
  receive.slot = arena.take(receives);
  if (receive.slot == nullptr) return false;
  receive.layout =
      cut(exchange.prng(), octets, receive.slot->size, std::min<std::uint32_t>(pieces_max, kPiecesMax));
  receive.room = octets;
  receive.bad_key = false;
  receive.id = kReceiveIdBit | next_receive_++;
  return true;
}

Receive* Site::find_shared(std::uint64_t id) {
  for (Receive& receive : shared_receives_) {
    if (receive.slot != nullptr && receive.id == id) return &receive;
  }
  return nullptr;
}

void Site::fill_shared(bool starve) {
  if (starve) return;
  for (Receive& receive : shared_receives_) {
    if (shared_queue_->size() == shared_queue_->capacity()) break;
    if (receive.slot != nullptr) continue;
    if (!make_receive(receive, message_octets_max(exchange.plan()) + 40, shared_queue_->sge_max())) break;
    SgeArray list;
    const auto sge = sges(*receive.slot, receive.layout, local_region->key, list);
    RRDMA_ASSERT(shared_queue_->post(receive.id, sge));
  }
  if (!limit_armed_ && exchange.prng().below(8) == 0 && shared_queue_->size() > 2) {
    shared_queue_->arm_limit(
        static_cast<std::uint32_t>(exchange.prng().between(1, shared_queue_->size() - 1)));
    limit_armed_ = true;
  }
}

void Site::end_shared(Receive& receive) {
  arena.refill(*receive.slot);
  arena.give_back(*receive.slot);
  receive.slot = nullptr;
}

void Site::end_shared_receives() {
  std::size_t posted = 0;
  for (Receive& receive : shared_receives_) {
    if (receive.slot == nullptr) continue;
    ++posted;
    if (std::string wrong = arena.check(*receive.slot, nullptr); !wrong.empty())
      exchange.world().violate(std::move(wrong));
    end_shared(receive);
  }
  if (posted != shared_queue_->size())
    exchange.world().violate("receive requests of a shared queue were lost");
}

std::string Site::check_nothing_left() {
  collect();
  if (!inbox_.empty()) return "completions came after everything was destroyed";
  if (!arena.all_free_but(word_pool)) return "the workload lost a slot";
  return {};
}

void Site::on_limit(objects::ReceiveQueue&) {
  EngineCall::Pause pause;
  if (!limit_armed_) exchange.world().violate("a shared receive queue told of a limit that was not armed");
  limit_armed_ = false;
  ++exchange.met().limit_events;
}

// ---- turns ----

bool Site::on_turn(Host&, Instant now) {
  collect();
  for (Queue& queue : queues_) rearm(queue);
  bool active = dispatch();
  if (limit_armed_ && shared_queue_ != nullptr && shared_queue_->limit() != 0 &&
      shared_queue_->size() < shared_queue_->limit()) {
    exchange.world().violate("a shared receive queue fell below its limit and told nobody");
  }
  for (const auto& [qpn, endpoint] : endpoints_) {
    if (exchange.world().violation()) return false;
    const std::size_t count = endpoints_.size();
    endpoint->turn(now);
    if (endpoints_.size() != count) break;  // it closed itself
  }
  return active;
}

void Site::on_qp_event(Host&, transport::QueuePair& qp, transport::QpEvent event) {
  ++exchange.met().qp_events[static_cast<std::size_t>(event)];
  const auto endpoint = endpoints_.find(qp.qpn.value);
  if (endpoint != endpoints_.end()) endpoint->second->on_event(event);
}

std::string Site::check_memory(bool everything) {
  if (std::string wrong = arena.check_free(); !wrong.empty()) {
    return "host " + std::to_string(host.index()) + ": " + wrong;
  }
  if (!everything) return {};
  for (Word& word : words) {
    if (std::string wrong = word.history.check(word_value(word)); !wrong.empty()) {
      return "host " + std::to_string(host.index()) + ": " + wrong;
    }
  }
  return {};
}

}  // namespace rrdma::sim
