#include "lib/rpc/line.h"

#include <cstring>

#include "rrdma/comm/scope.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

Line::Line(comm::Context& context, comm::Endpoint endpoint, std::uint8_t version)
    : context_(&context),
      endpoint_(std::move(endpoint)),
      packs_(version >= kPackingVersion),
      turn_end_(
          context, [](void* line) { static_cast<Line*>(line)->turn_ended(); }, this),
      unsent_(new Unsent) {}

Line::~Line() { flush(); }

void Line::close() {
  flush();
  endpoint_ = comm::Endpoint();
}

void Line::send(comm::Buffer message) {
  if (endpoint_.try_send(message.bytes()) || !endpoint_.open()) return;
  ++unsent_->count;
  comm::then(endpoint_.send(std::move(message)), Sent{unsent_});
}

void Line::flush() {
  packed_ = 0;
  if (pending_) send(std::exchange(pending_, {}));
}

void Line::turn_ended() {
  posted_ = false;
  flush();
}

void Line::post(comm::Buffer frame) {
  if (!frame || !endpoint_.open()) return;
  if (!packs_) return send(std::move(frame));
  if (pending_) {
    if (pack(frame)) return;
    flush();
  }
  turn_end_.request();
  if (eager_ && !std::exchange(posted_, true)) return send(std::move(frame));
  pending_ = std::move(frame);
  packed_ = 1;
}

bool Line::pack(const comm::Buffer& frame) {
  const std::size_t more = kPackedHead + frame.size();
  const std::size_t others = packed_ == 1 ? kPackHead + kPackedHead : 0;
  if (pending_.size() + others + more > kFrameLimit) return false;
  if (packed_ == 1) {
    auto memory = context_->pool().take(kFrameLimit);
    if (!memory) return false;
    const comm::Buffer first = std::exchange(pending_, std::move(*memory));
    Frame head;
    head.kind = Kind::kPack;
    emit_head(head, pending_.data());
    pending_.resize(kPackHead);
    append(first.bytes());
  }
  append(frame.bytes());
  if (++packed_ == kMostPacked) flush();
  return true;
}

void Line::append(std::span<const std::byte> frame) {
  std::byte* at = pending_.data() + pending_.size();
  emit_packed_head(frame.size(), at);
  std::memcpy(at + kPackedHead, frame.data(), frame.size());
  pending_.resize(pending_.size() + kPackedHead + frame.size());
}

void Line::post(const Frame& head) {
  comm::Buffer memory = frame(head_size(head));
  if (!memory) return;
  emit_head(head, memory.data());
  post(std::move(memory));
}

void Line::post(comm::Buffer octets, const Region& into) {
  if (!endpoint_.open()) return;
  ++unsent_->count;
  const comm::RemoteSpan<std::byte> target(into.address, into.key, into.length);
  comm::then(endpoint_.write(std::move(octets), target), Sent{unsent_});
}

comm::Task<bool> Line::until_sent() {
  while (crowded()) {
    if (!endpoint_.open()) co_return false;
    comm::Signal signal(*context_);
    SentWaiter waiter(signal);
    await_sent(waiter);
    auto waited = co_await signal;
    if (!waited) co_return false;
  }
  co_return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
