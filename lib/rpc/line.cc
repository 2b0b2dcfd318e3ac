#include "lib/rpc/line.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "rrdma/comm/scope.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

Line::Line(comm::Context& context, comm::Endpoint endpoint, std::uint8_t version)
    : context_(&context),
      endpoint_(std::move(endpoint)),
      packs_(version >= kPackingVersion),
      heads_(version >= kSealingVersion),
      offering_(version >= kOfferingVersion),
      frame_limit_(version < kLargeFrameVersion
                       ? kFrameLimit
                       : std::clamp(endpoint_.message_limit(), kFrameLimit, kLargeFrameLimit)),
      reference_(new LineRef(*this)),
      transfers_(new Transfers),
      offers_(context, *transfers_),
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

void Line::encrypt(const SealKeys& keys) {
  flush();
  seal_ = std::make_unique<Seal>(keys);
  frame_limit_ = std::max(kFrameLimit, std::min(frame_limit_, endpoint_.message_limit() - kSealing));
  offers_.encrypt(keys.offers_out);
}

namespace {
// Begins each sealed message, and is authenticated with it.
std::array<std::byte, kSealHead> seal_head() {
  std::array<std::byte, kSealHead> octets{};
  Frame head;
  head.kind = Kind::kSealed;
  emit_head(head, octets.data());
  return octets;
}
}  // namespace

comm::Buffer Line::sealed(std::span<const std::byte> message) {
  comm::Buffer memory = frame(message.size() + kSealing);
  if (!memory) return {};
  const auto head = seal_head();
  std::memcpy(memory.data(), head.data(), head.size());
  seal_->out.seal(seal_->sent++, head, message, memory.data() + head.size());
  return memory;
}

std::span<const std::byte> Line::open(comm::Message& message) {
  const std::span<std::byte> octets = message.bytes();
  if (!seal_) return octets;
  const auto head = seal_head();
  if (octets.size() <= kSealing || std::memcmp(octets.data(), head.data(), head.size()) != 0) return {};
  if (!seal_->in.open(seal_->received++, head, octets.subspan(head.size()))) return {};
  return octets.subspan(head.size(), octets.size() - kSealing);
}

bool Line::open(comm::Buffer& memory, std::uint64_t seal) {
  if (!seal_) return true;
  if (seal_->offers_in.open(seal, {}, memory.bytes())) {
    memory.resize(memory.size() - kSealTag);
    return true;
  }
  endpoint_.abort();
  return false;
}

void Line::send(comm::Buffer message) {
  if (!endpoint_.open()) return;
  if (seal_) message = sealed(message.bytes());
  if (message) send_plain(std::move(message));
}

Line::Sent Line::sending(const comm::Buffer& memory) {
  ++unsent_->count;
  unsent_->octets += memory.capacity();
  transfers_->add(memory.capacity());
  return {unsent_, transfers_, memory.capacity()};
}

void Line::send_plain(comm::Buffer message) {
  if (endpoint_.try_send(message.bytes()) || !endpoint_.open()) return;
  Sent sent = sending(message);
  comm::then(endpoint_.send(std::move(message)), std::move(sent));
}

void Line::send(std::span<const std::byte> message) {
  if (seal_ && endpoint_.open()) {
    if (comm::Buffer memory = sealed(message)) send_plain(std::move(memory));
    return;
  }
  if (endpoint_.try_send(message) || !endpoint_.open()) return;
  comm::Buffer memory = frame(message.size());
  if (!memory) return;
  std::memcpy(memory.data(), message.data(), message.size());
  send_plain(std::move(memory));
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
  if (packed_ != 0 && pending_.size() + more > frame_limit_) flush();
  turn_end_.request();
  if (packed_ == 0) {
    if (eager_ && !std::exchange(posted_, true)) return false;
    if (kPackHead + more > frame_limit_ || !begin_pack()) return false;
  }
  std::byte* at = pending_.data() + pending_.size();
  emit_packed_head(frame.size(), at);
  std::memcpy(at + kPackedHead, frame.data(), frame.size());
  pending_.resize(pending_.size() + more);
  if (++packed_ == kMostPacked) flush();
  return true;
}

bool Line::begin_pack() {
  auto memory = context_->pool().take(frame_limit_);
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
  Sent sent = sending(octets);
  const comm::RemoteSpan<std::byte> target(into.address, into.key, into.length);
  comm::then(endpoint_.write(std::move(octets), target), std::move(sent));
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
    SignalWaiter waiter(signal);
    await_sent(waiter);
    auto waited = co_await signal;
    if (!waited) co_return false;
  }
  co_return true;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
