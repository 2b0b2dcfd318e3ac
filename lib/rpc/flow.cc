// Inbound and Outbound: windows, items larger than a frame, and waiters.
#include "rrdma/rpc/flow.h"

#include <algorithm>
#include <cstring>

#include "lib/rpc/frame.h"
#include "lib/rpc/line.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

const std::size_t kItemHead = head_size(Frame{.kind = Kind::kItem});
// The largest window of a stream.
constexpr std::uint64_t kWindowLimit = 1ULL << 31;
// The smallest piece of a large item, if the window has no room for a whole frame.
constexpr std::uint32_t kLeastPiece = 512;
// The cost of an unread item beside its bytes: its place in the queue and the rounding of the pool.
constexpr std::size_t kPlaceOctets = 256;
constexpr const char* kCallOver = "the call is over";

}  // namespace

// --- Inbound ---------------------------------------------------------------------------------------------------

Inbound::Inbound(Line& line, std::uint32_t call, std::uint32_t window, std::size_t max_item)
    : line_(&line), call_(call), window_(window), granted_(window), max_item_(max_item) {}
Inbound::~Inbound() = default;

void Inbound::close() {
  if (line_ == nullptr) return;
  refuse(Status(Code::kCancelled, kCallOver));
  line_ = nullptr;
  place_.give();
}

bool Inbound::hold(std::size_t octets) {
  if (line_->streams().take(octets)) {
    held_ += octets;
    return true;
  }
  refuse(Status(Code::kResourceExhausted, "what waits to be read is all that the connection may hold"));
  place_.give();
  return false;
}

void Inbound::let_go(std::size_t octets) {
  held_ -= octets;
  line_->streams().give_back(octets);
}

void Inbound::drop_all() {
  items_.clear();
  std::string().swap(assembly_);  // an assignment would keep its memory
  assembly_held_ = 0;
  if (line_ != nullptr) let_go(held_);
}

comm::Context& Inbound::context() const { return line_->context(); }

std::optional<Payload> Inbound::take() {
  if (items_.empty()) return std::nullopt;
  Item item = std::move(items_.front());
  items_.pop_front();
  let_go(item.held);
  owed_ += item.cost;
  if (items_.empty()) owed_ += std::exchange(unpaid_, 0);
  give_window();
  return std::move(item.payload);
}

void Inbound::give_window() {
  if (ended_ || owed_ < window_ / 2) return;
  Frame frame;
  frame.kind = Kind::kWindow;
  frame.call = call_;
  frame.window = owed_;
  granted_ += std::exchange(owed_, 0);
  line_->post(frame);
}

bool Inbound::arrive(const Frame& frame, const comm::Message& message) {
  // Ignore an item that crossed with our end of the call.
  if (ended_) return true;
  if (frame.has(flag::kEmpty)) {
    if (assembling_) return false;
    end(Status());
    return true;
  }
  const auto cost = static_cast<std::uint32_t>(frame.body.size()) + kItemCost;
  if (cost > granted_) return false;
  granted_ -= cost;
  if (!keep(frame, message, cost)) return false;
  if (frame.has(flag::kLast)) ended_ = true;
  if (over() || !items_.empty()) place_.give();
  return true;
}

// An item may exceed the window, so each piece returns its window as it is assembled, unless items wait to be read.
bool Inbound::assemble(const Frame& frame, std::uint32_t cost) {
  const std::string_view octets(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
  const std::size_t size = assembly_.size() + octets.size();
  if (size > max_item_) return false;
  if (size > assembly_held_ || assembly_held_ == 0) {
    const std::size_t grown = std::max(2 * assembly_held_, size + kPlaceOctets);
    if (!hold(grown - assembly_held_)) return true;
    assembly_held_ = grown;
    assembly_.reserve(grown);
  }
  assembly_.append(octets);
  assembling_ = frame.has(flag::kMore);
  if (!assembling_) {
    items_.push_back({Payload(std::exchange(assembly_, {})), cost, std::exchange(assembly_held_, 0)});
    return true;
  }
  (items_.empty() ? owed_ : unpaid_) += cost;
  give_window();
  return true;
}

bool Inbound::keep(const Frame& frame, const comm::Message& message, std::uint32_t cost) {
  if (frame.has(flag::kMore) || assembling_) return assemble(frame, cost);
  const std::size_t held = frame.body.size() + kPlaceOctets;
  if (!hold(held)) return true;
  if (place_.taken() && items_.empty()) {
    // A reader waits and will consume the item before the next message, so do not copy it.
    const auto offset = static_cast<std::size_t>(frame.body.data() - message.bytes().data());
    const std::size_t size = frame.body.size();
    items_.push_back({Payload(message.share(), offset, size), cost, held});
    return true;
  }
  if (auto memory = line_->context().pool().take(frame.body.size())) {
    std::memcpy(memory->data(), frame.body.data(), frame.body.size());
    items_.push_back({Payload(std::move(*memory)), cost, held});
  } else {
    const std::string_view octets(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
    items_.push_back({Payload(std::string(octets)), cost, held});
  }
  return true;
}

void Inbound::end(Status status) {
  if (ended_) return;
  ended_ = true;
  status_ = std::move(status);
  place_.give();
}

void Inbound::refuse(Status status) {
  ended_ = true;
  drop_all();
  status_ = std::move(status);
}

// --- Outbound --------------------------------------------------------------------------------------------------

Outbound::~Outbound() = default;

void Outbound::close() {
  if (std::exchange(line_, nullptr) == nullptr) return;
  ended_ = true;
  status_ = Status(Code::kCancelled, kCallOver);
  place_.give();
}

Status Outbound::why() const { return status_.ok() ? Status(Code::kCancelled, kCallOver) : status_; }

Outbound::Item Outbound::prepare(std::size_t size) {
  Item item;
  if (ended_ || finished_) {
    item.failure = ended_ ? why() : Status(Code::kFailedPrecondition, "the stream is over");
    return item;
  }
  item.framed = kItemHead + size <= kFrameLimit;
  auto memory = line_->context().pool().take(item.framed ? kItemHead + size : size);
  if (!memory) {
    item.failure = status_of(memory.error());
    return item;
  }
  item.memory = std::move(*memory);
  item.room = item.memory.bytes().subspan(item.framed ? kItemHead : 0);
  return item;
}

comm::Task<Status> Outbound::wait_for_window(std::uint32_t cost, comm::Limit limit) {
  // A large window does not mean that the peer receives. If the connection is crowded, wait here instead of
  // using memory.
  while (!ended_ && (window_ < cost || line_->crowded())) {
    comm::Signal signal(line_->context(), limit);
    const WaitPlace::Stay stay(place_, signal);
    SentWaiter waiter(signal);
    if (line_->crowded()) line_->await_sent(waiter);
    auto waited = co_await signal;
    if (!waited) co_return status_of(waited.error());
  }
  co_return ended_ ? why() : Status();
}

comm::Task<Status> Outbound::send(comm::detail::Ref<Outbound> self, Item item, comm::Limit limit) {
  if (!item.failure.ok()) co_return item.failure;
  Frame frame;
  frame.kind = Kind::kItem;
  frame.call = self->call_;
  if (item.framed) {
    const auto cost = static_cast<std::uint32_t>(item.room.size()) + kItemCost;
    if (self->ended_ || self->window_ < cost || self->line_->crowded()) {
      Status waited = co_await self->wait_for_window(cost, limit);
      if (!waited.ok()) co_return waited;
    }
    self->window_ -= cost;
    emit_head(frame, item.memory.data());
    self->line_->post(std::move(item.memory));
    co_return Status();
  }
  std::span<const std::byte> rest = item.room;
  while (!rest.empty()) {
    const auto least = static_cast<std::uint32_t>(std::min<std::size_t>(rest.size(), kLeastPiece));
    Status waited = co_await self->wait_for_window(least + kItemCost, limit);
    if (!waited.ok()) {
      // Part of the item was sent. A later item would be taken for its rest, so end the stream.
      if (rest.size() != item.room.size()) self->end(waited);
      co_return waited;
    }
    const std::size_t piece =
        std::min<std::size_t>({rest.size(), kFrameLimit - kItemHead, self->window_ - kItemCost});
    self->window_ -= piece + kItemCost;
    comm::Buffer memory = self->line_->frame(kItemHead + piece);
    if (!memory) co_return Status(Code::kResourceExhausted, "there is no memory for a frame");
    frame.flags = piece < rest.size() ? flag::kMore : 0;
    emit_head(frame, memory.data());
    std::memcpy(memory.data() + kItemHead, rest.data(), piece);
    self->line_->post(std::move(memory));
    rest = rest.subspan(piece);
  }
  co_return Status();
}

Status Outbound::finish() {
  if (ended_) return why();
  if (std::exchange(finished_, true)) return {};
  Frame frame;
  frame.kind = Kind::kItem;
  frame.flags = flag::kLast | flag::kEmpty;
  frame.call = call_;
  line_->post(frame);
  return {};
}

bool Outbound::widen(std::uint32_t more) {
  if (ended_) return true;
  if (window_ + more > kWindowLimit) return false;
  window_ += more;
  place_.give();
  return true;
}

void Outbound::end(Status status) {
  if (ended_) return;
  ended_ = true;
  status_ = std::move(status);
  place_.give();
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
