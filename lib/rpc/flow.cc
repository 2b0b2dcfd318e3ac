// Inbound and Outbound: windows, items larger than a frame, READs of offered items, and waiters.
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
// The most bytes that a stream reads ahead, and the most that it offers, unless one item is larger.
constexpr std::size_t kMostAhead = 8 << 20;
constexpr std::size_t kMostOffered = 8 << 20;
constexpr const char* kNoMemory = "what waits to be read is all that the connection may hold";
constexpr const char* kCallOver = "the call is over";

}  // namespace

// ---- Inbound ----

Inbound::Inbound(Line& line, std::uint32_t call, std::uint32_t window, std::size_t max_item)
    : line_(&line), call_(call), window_(window), granted_(window), max_item_(max_item), reach_(window) {}
Inbound::~Inbound() = default;

void Inbound::close() {
  if (line_ == nullptr) return;
  refuse(Status(Code::kCancelled, kCallOver));
  line_ = nullptr;
  place_.give();
}

bool Inbound::hold(std::size_t octets) {
  if (line_->received().take(octets)) {
    held_ += octets;
    return true;
  }
  refuse(Status(Code::kResourceExhausted, kNoMemory));
  place_.give();
  return false;
}

void Inbound::let_go(std::size_t octets) {
  held_ -= octets;
  line_->received().give_back(octets);
}

void Inbound::drop_all() {
  // A READ in flight gives its region back when it completes.
  for (const Item& item : items_) {
    if (line_ != nullptr && !item.here() && !item.reading) line_->give_back(item.offered.address());
  }
  first_ += items_.size();
  items_.clear();
  ahead_ = 0;
  std::string().swap(assembly_);  // an assignment would keep its memory
  assembly_held_ = 0;
  if (line_ != nullptr) let_go(held_);
}

comm::Context& Inbound::context() const { return line_->context(); }

std::optional<Payload> Inbound::take() {
  if (!ready()) {
    if (!items_.empty()) starve();
    return std::nullopt;
  }
  Item item = std::move(items_.front());
  items_.pop_front();
  ++first_;
  let_go(item.held);
  owed_ += item.cost;
  if (items_.empty()) owed_ += std::exchange(unpaid_, 0);
  give_window();
  ahead_ -= item.ahead;
  read_ahead();
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
  if (ended_) {
    if (frame.has(flag::kOffered)) line_->give_back(frame.offered.address);
    return true;
  }
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
  if (over() || ready()) place_.give();
  return true;
}

// ---- offered items ----

bool Inbound::accept_offer(const Frame& frame, std::uint32_t cost) {
  if (assembling_ || line_->plain_size(frame.offered) > max_item_) return false;
  const Region& at = frame.offered;
  if (!hold(kPlaceOctets)) {
    line_->give_back(at.address);
    return true;
  }
  items_.push_back({.payload = {},
                    .cost = cost,
                    .held = kPlaceOctets,
                    .offered = {at.address, at.key, at.length},
                    .seal = at.seal});
  read_ahead();
  return true;
}

void Inbound::read_ahead() {
  // Reading may end the stream at once, which drops all items.
  for (next_ = std::max(next_, first_); next_ < first_ + items_.size(); next_ = std::max(next_ + 1, first_)) {
    Item& item = items_[static_cast<std::size_t>(next_ - first_)];
    if (!item.here() && !start_reading(item, next_)) return;
  }
}

struct Inbound::Landing {
  comm::detail::Ref<Inbound> self;
  comm::detail::Ref<LineRef> reference;
  std::uint64_t number;
  std::uint64_t address;
  std::uint64_t seal;
  std::size_t held;  // bytes of the connection's memory

  void operator()(comm::Result<comm::Buffer> read) const {
    Line* line = reference->line;
    if (line == nullptr) return;
    if (read && !line->open(*read, seal)) read = comm::Error(comm::Code::kProtocol, comm::During::kRead);
    line->give_back(address);
    // The item was dropped if the call is over.
    if (number < self->first_) return line->received().give_back(held);
    if (!read) {
      line->received().give_back(held);
      return self->lose();
    }
    Item& item = self->items_[static_cast<std::size_t>(number - self->first_)];
    item.payload = Payload(std::move(*read));
    item.offered = {};
    item.held += held;
    self->held_ += held;
    if (self->ready()) self->place_.give();
  }
};

bool Inbound::start_reading(Item& item, std::uint64_t number) {
  if (!line_->endpoint().open()) {
    lose();
    return false;
  }
  const std::size_t size = item.offered.size();
  if (ahead_ != 0 && ahead_ + size > reach_) return false;
  auto memory = line_->context().pool().take(size);
  const std::size_t held = memory ? memory->capacity() : 0;
  if (!memory || !line_->received().take(held)) {
    // The application may consume earlier items first. If there are none, other streams have all of the
    // memory.
    if (number == first_) {
      refuse(Status(Code::kResourceExhausted, kNoMemory));
      place_.give();
    }
    return false;
  }
  ahead_ += size;
  item.reading = true;
  item.ahead = size;
  const auto from = item.offered;
  comm::then(
      line_->endpoint().read(from, std::move(*memory)),
      Landing{comm::detail::Ref<Inbound>(this), line_->reference(), number, from.address(), item.seal, held});
  return true;
}

void Inbound::lose() {
  const bool ours = !line_->endpoint();  // this end closed it
  const Status why(ours ? Code::kCancelled : Code::kUnavailable, "the connection is over");
  refuse(status_.ok() ? why : Status(status_));
  place_.give();
}

void Inbound::starve() {
  if (next_ >= first_ + items_.size() || line_ == nullptr) return;
  reach_ = std::min(2 * reach_, kMostAhead);
  read_ahead();
}

// ---- items in frames ----

// An item may exceed the window, so each piece returns its window as it is assembled, unless items wait to be
// read.
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
  if (frame.has(flag::kOffered)) return accept_offer(frame, cost);
  if (frame.has(flag::kMore) || assembling_) return assemble(frame, cost);
  const std::size_t size = frame.body.size();
  // A peer of an earlier version does not compare an item in one frame with the limit.
  if (size > std::max(max_item_, kFrameLimit)) return false;
  if (place_.taken() && items_.empty()) {
    const std::size_t held = size + kPlaceOctets;
    if (!hold(held)) return true;
    // A reader waits and will consume the item before the next message, so do not copy it.
    const auto offset = static_cast<std::size_t>(frame.body.data() - message.bytes().data());
    items_.push_back({Payload(message.share(), offset, size), cost, held});
    return true;
  }
  auto memory = line_->context().pool().take(size);
  // A piece of the pool may be almost twice as large as its contents.
  const std::size_t held = (memory ? memory->capacity() : size) + kPlaceOctets;
  if (!hold(held)) return true;
  if (memory) {
    if (size != 0) std::memcpy(memory->data(), frame.body.data(), size);
    items_.push_back({Payload(std::move(*memory)), cost, held});
  } else {
    const std::string_view octets(reinterpret_cast<const char*>(frame.body.data()), size);
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

// ---- Outbound ----

Outbound::Outbound(Line& line, std::uint32_t call, std::uint32_t window)
    : line_(&line),
      call_(call),
      window_(window),
      framed_(std::clamp<std::size_t>(window / 2, kFrameLimit, line.frame_limit()) - kItemHead - kItemCost) {}
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
  item.framed = size <= framed_;
  auto memory = line_->offered(size) ? line_->offers().take(size)
                                     : line_->context().pool().take(item.framed ? kItemHead + size : size);
  if (!memory) {
    item.failure = memory.error();
    return item;
  }
  item.memory = std::move(*memory);
  item.room = item.memory.bytes().subspan(item.framed ? kItemHead : 0);
  return item;
}

bool Outbound::blocked(std::uint32_t cost, std::size_t offer) const {
  if (window_ < cost || line_->full()) return true;
  return offer != 0 && offered_ != 0 && offered_ + offer > kMostOffered;
}

comm::Task<Status> Outbound::wait_for_window(std::uint32_t cost, std::size_t offer, comm::Limit limit) {
  // A large window does not mean that the peer receives. If the connection is crowded, wait here instead of
  // using memory.
  while (!ended_ && blocked(cost, offer)) {
    comm::Signal signal(line_->context(), limit);
    const WaitPlace::Stay stay(place_, signal);
    SignalWaiter waiter(signal);
    if (line_->full()) line_->await_sent(waiter);
    auto waited = co_await signal;
    if (!waited) co_return waited.error();
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
    if (self->ended_ || self->blocked(cost, 0)) {
      Status waited = co_await self->wait_for_window(cost, 0, limit);
      if (!waited.ok()) co_return waited;
    }
    self->window_ -= cost;
    emit_head(frame, item.memory.data());
    self->line_->post(std::move(item.memory));
    co_return Status();
  }
  if (!self->ended_ && self->line_->offered(item.room.size()) &&
      self->line_->offers().has_room_for_item(item.room.size())) {
    Status waited = co_await self->wait_for_window(kItemCost, item.room.size(), limit);
    if (!waited.ok()) co_return waited;
    co_return offer(self, std::move(item.memory));
  }
  std::span<const std::byte> rest = item.room;
  while (!rest.empty()) {
    const auto least = static_cast<std::uint32_t>(std::min<std::size_t>(rest.size(), kLeastPiece));
    Status waited = co_await self->wait_for_window(least + kItemCost, 0, limit);
    if (!waited.ok()) {
      // Part of the item was sent. A later item would be taken for its rest, so end the stream.
      if (rest.size() != item.room.size()) self->end(waited);
      co_return waited;
    }
    const std::size_t piece = std::min<std::size_t>({rest.size(), self->framed_, self->window_ - kItemCost});
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

Status Outbound::offer(const comm::detail::Ref<Outbound>& self, comm::Buffer memory) {
  auto lent = self->line_->offers().lend(std::move(memory), self);
  if (!lent) return lent.error();
  Frame frame;
  frame.kind = Kind::kItem;
  frame.call = self->call_;
  self->line_->mark_offered(frame, *lent);
  self->window_ -= kItemCost;
  self->offered_ += lent->length;
  self->line_->post(frame);
  return {};
}

void Outbound::returned(std::size_t octets) {
  offered_ -= octets;
  place_.give();
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
