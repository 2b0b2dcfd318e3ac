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
      offering_(version >= kOfferingVersion),
      reference_(new LineRef(*this)),
      offers_(context),
      turn_end_(
          context, [](void* line) { static_cast<Line*>(line)->turn_ended(); }, this),
      unsent_(new Unsent) {}

Line::~Line() {
  flush();
  reference_->line = nullptr;
}

void Line::close() {
  flush();
  endpoint_ = comm::Endpoint();
}

void Line::send(comm::Buffer message) {
  if (endpoint_.try_send(message.bytes()) || !endpoint_.open()) return;
  ++unsent_->count;
  comm::then(endpoint_.send(std::move(message)), Sent{unsent_});
}

void Line::send(std::span<const std::byte> message) {
  if (endpoint_.try_send(message) || !endpoint_.open()) return;
  comm::Buffer memory = frame(message.size());
  if (!memory) return;
  std::memcpy(memory.data(), message.data(), message.size());
  send(std::move(memory));
}

void Line::flush() {
  const std::size_t packed = std::exchange(packed_, 0);
  if (packed == 0) return;
  comm::Buffer message = std::move(pending_);
  if (packed > 1) return send(std::move(message));
  send(message.bytes().subspan(kPackHead + kPackedHead));
}

void Line::turn_ended() {
  posted_ = false;
  flush();
}

void Line::post(comm::Buffer frame) {
  if (!frame || !endpoint_.open()) return;
  if (!pack(frame.bytes())) send(std::move(frame));
}

void Line::post(FrameMemory& frame) {
  if (comm::Buffer memory = frame.take_buffer()) return post(std::move(memory));
  if (!frame || !endpoint_.open()) return;
  if (!pack(frame.bytes())) send(frame.bytes());
  frame.release();
}

bool Line::pack(std::span<const std::byte> frame) {
  if (!packs_) return false;
  const std::size_t more = kPackedHead + frame.size();
  if (packed_ != 0 && pending_.size() + more > kFrameLimit) flush();
  turn_end_.request();
  if (packed_ == 0) {
    if (eager_ && !std::exchange(posted_, true)) return false;
    if (kPackHead + more > kFrameLimit || !begin_pack()) return false;
  }
  std::byte* at = pending_.data() + pending_.size();
  emit_packed_head(frame.size(), at);
  std::memcpy(at + kPackedHead, frame.data(), frame.size());
  pending_.resize(pending_.size() + more);
  if (++packed_ == kMostPacked) flush();
  return true;
}

bool Line::begin_pack() {
  auto memory = context_->pool().take(kFrameLimit);
  if (!memory) return false;
  pending_ = std::move(*memory);
  Frame head;
  head.kind = Kind::kPack;
  emit_head(head, pending_.data());
  pending_.resize(kPackHead);
  return true;
}

void Line::post(const Frame& head) {
  FrameMemory memory;
  if (!frame(memory, head_size(head))) return;
  emit_head(head, memory.data());
  post(memory);
}

void Line::post(comm::Buffer octets, const Region& into) {
  if (!endpoint_.open()) return;
  ++unsent_->count;
  const comm::RemoteSpan<std::byte> target(into.address, into.key, into.length);
  comm::then(endpoint_.write(std::move(octets), target), Sent{unsent_});
}

bool Line::deliver(Inbound* stream, const Frame& frame, const comm::Message& message) {
  if (frame.has(flag::kOffered) && !offering_) return false;
  if (stream != nullptr) return stream->arrive(frame, message);
  if (frame.has(flag::kOffered)) give_back(frame.offered.address);
  return true;
}

void Line::give_back(std::uint64_t address) {
  Frame frame;
  frame.kind = Kind::kTaken;
  frame.address = address;
  post(frame);
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
