// Endpoint: the public interface of EndpointState, and the results of its operations.
#include "rrdma/comm/endpoint.h"

#include <utility>

#include "lib/comm/endpoint_state.h"

namespace rrdma::comm {
inline namespace v0 {
namespace {
// A valid address for the data of an empty message.
constexpr std::byte kNothing{};
}  // namespace

Endpoint::Endpoint() = default;
Endpoint::Endpoint(detail::Ref<detail::EndpointState> state) : state_(std::move(state)) {}
Endpoint::Endpoint(Endpoint&&) noexcept = default;
Endpoint& Endpoint::operator=(Endpoint&& other) noexcept {
  if (this != &other) {
    if (state_) state_->handle_gone();
    state_ = std::move(other.state_);
  }
  return *this;
}
Endpoint::~Endpoint() {
  if (state_) state_->handle_gone();
}

Transferring Endpoint::send(Buffer message, Limit limit) {
  const bool empty = !message;
  Transferring sending(state_checked(), detail::Verb::kSend, During::kSend, std::move(message),
                       std::move(limit));
  if (empty) sending.octets_ = {&kNothing, 0};
  return sending;
}

Copying Endpoint::send(std::span<const std::byte> octets, Limit limit) {
  Copying sending(state_checked(), detail::Verb::kSend, During::kSend, Buffer(), std::move(limit));
  sending.octets_ = octets.empty() ? std::span<const std::byte>(&kNothing, 0) : octets;
  return sending;
}

bool Endpoint::try_send(std::span<const std::byte> octets) {
  if (!state_) return false;
  state_->reactor()->require_thread();
  return state_->try_send(octets);
}

Message Endpoint::try_receive() {
  if (!state_) return {};
  state_->reactor()->require_thread();
  return state_->try_receive();
}

Receiving Endpoint::receive(Limit limit) { return Receiving(state_checked(), std::move(limit)); }

Transferring Endpoint::write_bytes(Buffer from, RemoteSpan<std::byte> to,
                                   std::optional<std::uint32_t> immediate, Limit limit) {
  Transferring writing(state_checked(), immediate ? detail::Verb::kWriteImmediate : detail::Verb::kWrite,
                       During::kWrite, std::move(from), std::move(limit));
  writing.remote_address_ = to.address();
  writing.remote_key_ = to.key();
  writing.length_ = static_cast<std::uint32_t>(to.size());
  writing.immediate_ = immediate.value_or(0);
  return writing;
}

Transferring Endpoint::read_bytes(RemoteSpan<const std::byte> from, Buffer into, Limit limit) {
  Transferring reading(state_checked(), detail::Verb::kRead, During::kRead, std::move(into),
                       std::move(limit));
  reading.remote_address_ = from.address();
  reading.remote_key_ = from.key();
  reading.length_ = static_cast<std::uint32_t>(from.size());
  return reading;
}

Exchanging Endpoint::compare_swap(RemoteRef<std::uint64_t> where, std::uint64_t expected,
                                  std::uint64_t desired, Limit limit) {
  Exchanging exchanging(state_checked(), detail::Verb::kCompareSwap, During::kAtomic, Buffer(),
                        std::move(limit));
  exchanging.remote_address_ = where.address();
  exchanging.remote_key_ = where.key();
  exchanging.operand_ = expected;
  exchanging.swap_ = desired;
  return exchanging;
}

Exchanging Endpoint::fetch_add(RemoteRef<std::uint64_t> where, std::uint64_t value, Limit limit) {
  Exchanging exchanging(state_checked(), detail::Verb::kFetchAdd, During::kAtomic, Buffer(),
                        std::move(limit));
  exchanging.remote_address_ = where.address();
  exchanging.remote_key_ = where.key();
  exchanging.operand_ = value;
  return exchanging;
}

Buffer Endpoint::scratch(std::size_t size) {
  if (state_checked()->reactor()->closed()) return {};
  auto buffer = state_->reactor()->pool()->take(size);
  return buffer ? std::move(*buffer) : Buffer();
}

Copying Endpoint::flush(Limit limit) {
  Copying flushing(state_checked(), detail::Verb::kWrite, During::kSend, Buffer(), std::move(limit));
  return flushing;
}
Settling Endpoint::close(Limit limit) { return Settling(state_checked(), std::move(limit)); }
void Endpoint::abort() {
  if (state_) state_->abort(Code::kClosed);
}

bool Endpoint::open() const { return state_ && state_->usable(); }
std::string_view Endpoint::peer() const { return *state_checked()->peer_name(); }
std::string_view Endpoint::local() const { return state_checked()->local_name(); }
std::span<const std::byte> Endpoint::hello() const {
  return std::as_bytes(std::span(state_checked()->peer_hello().application));
}
std::size_t Endpoint::message_limit() const { return state_checked()->peer_hello().message_limit; }
std::size_t Endpoint::inline_limit() const {
  const std::size_t octets = state_checked()->inline_limit();
  return octets > sizeof(detail::MessageHeader) ? octets - sizeof(detail::MessageHeader) : 0;
}
std::size_t Endpoint::credits() const {
  const std::size_t credits = state_checked()->credits();
  return credits > 0 ? credits - 1 : 0;
}
const EndpointCounters& Endpoint::counters() const { return state_checked()->counters(); }

Result<Buffer> Transferring::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return std::move(buffer_);
}
Result<void> Copying::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return {};
}
Result<std::uint64_t> Exchanging::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return answer_;
}

Settling::Settling(const detail::Ref<detail::EndpointState>& endpoint, Limit limit)
    : Operation(endpoint->reactor(), During::kClose, std::move(limit)), endpoint_(endpoint) {}
Settling::~Settling() { abandon(); }
void Settling::begin() { endpoint_->begin(this); }
void Settling::withdraw() noexcept { leave_list(); }
Error Settling::error_for(Code code, int detail) const {
  return endpoint_->error_for(code, During::kClose, detail);
}
Result<void> Settling::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return {};
}

}  // namespace v0
}  // namespace rrdma::comm
