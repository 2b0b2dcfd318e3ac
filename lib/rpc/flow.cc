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

}  // namespace

// --- Inbound ---------------------------------------------------------------------------------------------------

void Inbound::open(Line& line, std::uint32_t call, std::uint32_t window, std::size_t max_item) {
  line_ = &line;
  call_ = call;
  window_ = granted_ = window;
  owed_ = 0;
  max_item_ = max_item;
  assembling_ = false;
  ended_ = false;
  status_ = Status();
}

void Inbound::close() {
  line_ = nullptr;
  ended_ = true;
  items_.clear();
  assembly_.clear();
}

comm::Context& Inbound::context() const { return line_->context(); }

std::optional<Payload> Inbound::take() {
  if (items_.empty()) return std::nullopt;
  Item item = std::move(items_.front());
  items_.pop_front();
  owed_ += item.cost;
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

bool Inbound::keep(const Frame& frame, const comm::Message& message, std::uint32_t cost) {
  const std::string_view octets(reinterpret_cast<const char*>(frame.body.data()), frame.body.size());
  if (frame.has(flag::kMore) || assembling_) {
    if (assembly_.size() + octets.size() > max_item_) return false;
    assembly_.append(octets);
    assembling_ = frame.has(flag::kMore);
    if (assembling_) {
      // An item may exceed the window, so return the window of each piece as it is assembled.
      owed_ += cost;
      give_window();
      return true;
    }
    items_.push_back({Payload(std::exchange(assembly_, {})), cost});
    return true;
  }
  if (place_.taken() && items_.empty()) {
    // A reader waits and will consume the item before the next message, so do not copy it.
    const auto offset = static_cast<std::size_t>(frame.body.data() - message.bytes().data());
    const std::size_t size = frame.body.size();
    items_.push_back({Payload(message.share(), offset, size), cost});
    return true;
  }
  if (auto memory = line_->context().pool().take(octets.size())) {
    std::memcpy(memory->data(), octets.data(), octets.size());
    items_.push_back({Payload(std::move(*memory)), cost});
  } else {
    items_.push_back({Payload(std::string(octets)), cost});
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
  items_.clear();
  status_ = std::move(status);
}

// --- Outbound --------------------------------------------------------------------------------------------------

void Outbound::open(Line& line, std::uint32_t call, std::uint32_t window) {
  line_ = &line;
  call_ = call;
  window_ = window;
  ended_ = finished_ = false;
  status_ = Status();
}

void Outbound::close() {
  line_ = nullptr;
  ended_ = true;
}

Outbound::Item Outbound::prepare(std::size_t size) {
  Item item;
  if (ended_ || finished_) {
    item.failure = status_.ok() ? Status(Code::kFailedPrecondition, "the stream is over") : status_;
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
  if (!ended_) co_return Status();
  co_return status_.ok() ? Status(Code::kCancelled, "the call is over") : status_;
}

comm::Task<Status> Outbound::send(Item item, comm::Limit limit) {
  if (!item.failure.ok()) co_return item.failure;
  Frame frame;
  frame.kind = Kind::kItem;
  frame.call = call_;
  if (item.framed) {
    const auto cost = static_cast<std::uint32_t>(item.room.size()) + kItemCost;
    if (ended_ || window_ < cost || line_->crowded()) {
      Status waited = co_await wait_for_window(cost, limit);
      if (!waited.ok()) co_return waited;
    }
    window_ -= cost;
    emit_head(frame, item.memory.data());
    line_->post(std::move(item.memory));
    co_return Status();
  }
  std::span<const std::byte> rest = item.room;
  while (!rest.empty()) {
    const auto least = static_cast<std::uint32_t>(std::min<std::size_t>(rest.size(), kLeastPiece));
    Status waited = co_await wait_for_window(least + kItemCost, limit);
    if (!waited.ok()) {
      // Part of the item was sent. A later item would be taken for its rest, so end the stream.
      if (rest.size() != item.room.size()) end(waited);
      co_return waited;
    }
    const std::size_t piece =
        std::min<std::size_t>({rest.size(), kFrameLimit - kItemHead, window_ - kItemCost});
    window_ -= piece + kItemCost;
    comm::Buffer memory = line_->frame(kItemHead + piece);
    if (!memory) co_return Status(Code::kResourceExhausted, "there is no memory for a frame");
    frame.flags = piece < rest.size() ? flag::kMore : 0;
    emit_head(frame, memory.data());
    std::memcpy(memory.data() + kItemHead, rest.data(), piece);
    line_->post(std::move(memory));
    rest = rest.subspan(piece);
  }
  co_return Status();
}

Status Outbound::finish() {
  if (ended_) return status_.ok() ? Status(Code::kCancelled, "the call is over") : status_;
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
