// ServerCall: the reply of a call: in one frame, offered in this server's memory, written into the caller's
// memory, or in parts.
#include <algorithm>
#include <cstring>
#include <vector>

#include "lib/rpc/frame.h"
#include "lib/rpc/server_connection.h"
#include "rrdma/rpc/call.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace {

constexpr std::size_t kMaxMessage = 896;
constexpr std::size_t kMaxDetails = 1024;

}  // namespace

std::string_view Call::peer() const { return connection_->line().endpoint().peer(); }

std::optional<TraceContext> Call::trace() const {
  const auto& call = static_cast<const detail::ServerCall&>(*this);
  return call.span_ ? call.span_->context() : TraceContext::of(metadata_);
}

Status Call::send_headers() {
  auto& call = static_cast<detail::ServerCall&>(*this);
  if (call.headed_ || call.replied_)
    return {Code::kFailedPrecondition, "headers are sent once, before the reply"};
  if (!detail::fits(headers_))
    return {Code::kResourceExhausted, "the headers are larger than a frame allows"};
  call.headed_ = true;
  if (!headers_.empty() && connection_->line().heads()) {
    std::vector<std::byte> octets(detail::emitted_size(headers_));
    detail::emit_metadata(headers_, octets.data());
    detail::Frame frame;
    frame.kind = detail::Kind::kHeaders;
    frame.call = call.id_;
    frame.metadata = octets;
    connection_->line().post(frame);
  }
  return {};
}

std::stop_token Call::stop() {
  if (!stop_) {
    stop_.emplace();
    if (cancelled_) stop_->request_stop();
  }
  return stop_->get_token();
}

namespace detail {

ServerCall::ServerCall(comm::Context& context, ServerConnection& connection)
    : Call(context),
      alarm_(
          context,
          [](void* call) {
            static_cast<ServerCall*>(call)->cancel(
                Status(Code::kDeadlineExceeded, "the caller's time is over"));
          },
          this) {
  connection_ = &connection;
}
ServerCall::~ServerCall() { close_streams(); }

void ServerCall::close_streams() {
  if (inbound_) inbound_->close();
  if (outbound_) outbound_->close();
  inbound_.reset();
  outbound_.reset();
}

namespace {

Frame reply_frame(std::uint32_t id, Code code) {
  Frame frame;
  frame.kind = Kind::kReply;
  frame.call = id;
  frame.status = static_cast<std::uint8_t>(code);
  return frame;
}

std::string emitted(const Metadata& metadata) {
  std::string octets(emitted_size(metadata), '\0');
  emit_metadata(metadata, reinterpret_cast<std::byte*>(octets.data()));
  return octets;
}
std::span<const std::byte> octets_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace

void ServerCall::send_last_headers() {
  if (!headed_ && !headers_.empty()) static_cast<void>(send_headers());
}

bool ServerCall::eager(std::size_t size) const {
  const std::size_t limit = connection_->line().frame_limit();
  // reply_from() refuses a result that is too large.
  if (size > kFrameLimit && size > connection_->hello().max_result) return false;
  return size <= limit && kReplyHead + emitted_size(trailers_) + size <= limit;
}

std::byte* ServerCall::prepare(std::size_t size) {
  if (!fits(trailers_)) {
    trailers_.clear();
    fail(Status(Code::kInternal, "the trailers are larger than a frame allows"));
    return nullptr;
  }
  if (eager(size)) {
    result_head_ = kReplyHead + emitted_size(trailers_);
    return connection_->line().frame(reply_, result_head_ + size) ? reply_.data() + result_head_ : nullptr;
  }
  Line& line = connection_->line();
  auto memory = line.offered(size) ? line.offers().take(size) : context().pool().take(size);
  if (!memory) {
    fail(memory.error());
    return nullptr;
  }
  result_head_ = 0;
  result_ = std::move(*memory);
  return result_.data();
}

void ServerCall::send_prepared() {
  if (result_head_ == 0) return reply_from(std::move(result_));
  send_last_headers();
  Frame frame = reply_frame(id_, Code::kOk);
  const std::string trailers = trailers_.empty() ? std::string() : emitted(trailers_);
  frame.metadata = octets_of(trailers);
  emit_head(frame, reply_.data());
  connection_->line().post(reply_);
  replied_ = true;
  connection_->replied(*this, Status());
}

void ServerCall::reply_from(comm::Buffer octets) {
  const std::size_t size = octets.size();
  const bool written = size <= lent_.size();
  if (!written && size > connection_->hello().max_result) {
    return fail(Status(Code::kResourceExhausted, "the result has " + std::to_string(size) +
                                                     " bytes, the caller takes " +
                                                     std::to_string(connection_->hello().max_result)));
  }
  send_last_headers();
  Line& line = connection_->line();
  Frame frame = reply_frame(id_, Code::kOk);
  const std::string trailers = emitted(trailers_);
  frame.metadata = octets_of(trailers);
  if (written) {
    frame.flags = flag::kWritten;
    frame.written = static_cast<std::uint32_t>(size);
    line.post(std::move(octets),
              Region{lent_.address(), lent_.key(), static_cast<std::uint32_t>(lent_.size())});
  } else if (line.offered(size) && line.offers().has_room(size)) {
    auto memory = line.offers().take_copy(std::move(octets));
    if (!memory) return fail(memory.error());
    auto lent = line.offers().lend(std::move(*memory));
    if (!lent) return fail(lent.error());
    line.mark_offered(frame, *lent);
  } else {
    send_parts(octets.bytes());
  }
  line.post(frame);
  replied_ = true;
  connection_->replied(*this, Status());
}

void ServerCall::send_parts(std::span<const std::byte> octets) {
  Frame frame;
  frame.kind = Kind::kPart;
  frame.call = id_;
  const std::size_t head = head_size(frame);
  const std::size_t most = connection_->line().frame_limit() - head;
  while (!octets.empty()) {
    const std::size_t size = std::min(octets.size(), most);
    comm::Buffer memory = connection_->line().frame(head + size);
    if (!memory) return;
    emit_head(frame, memory.data());
    std::memcpy(memory.data() + head, octets.data(), size);
    connection_->line().post(std::move(memory));
    octets = octets.subspan(size);
  }
}

void ServerCall::fail(Status status, const Status& known) {
  if (replied_) return;
  send_last_headers();
  replied_ = true;
  if (status.ok()) status = Status(Code::kInternal, "the handler failed without saying how");
  if (!fits(trailers_)) trailers_.clear();
  Frame frame = reply_frame(id_, status.code());
  const std::string trailers = emitted(trailers_);
  frame.metadata = octets_of(trailers);
  frame.message = std::string_view(status.message()).substr(0, kMaxMessage);
  if (status.details().size() <= kMaxDetails) frame.details = status.details();
  if (status.refused()) frame.flags = flag::kRefused;
  connection_->line().post(frame);
  connection_->replied(*this, known.ok() ? status : known);
}

void ServerCall::cancel(Status status) {
  if (cancelled_) return;
  cancelled_ = true;
  alarm_.cancel();
  if (inbound_) inbound_->end(status);
  if (outbound_) outbound_->end(status);
  if (transferring_) {
    pending_ = std::move(status);
  } else {
    fail(status);
  }
  if (stop_) stop_->request_stop();
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
