// Call: a call as its handler sees it. The server owns it; it exists until the handler has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>

#include "rrdma/comm/context.h"
#include "rrdma/comm/limit.h"
#include "rrdma/comm/remote.h"
#include "rrdma/comm/signal.h"
#include "rrdma/rpc/bulk.h"
#include "rrdma/rpc/codec.h"
#include "rrdma/rpc/flow.h"
#include "rrdma/rpc/frame_memory.h"
#include "rrdma/rpc/metadata.h"
#include "rrdma/rpc/method.h"
#include "rrdma/rpc/spans.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

namespace detail {
class ServerConnection;
class ServerCall;
struct Served;
}  // namespace detail

class RRDMA_RPC_API Call {
 public:
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Metadata that the caller sent with the argument.
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  // Metadata to send back before the first result: by send_headers(), or else with the result or the status.
  [[nodiscard]] Metadata& headers() { return headers_; }
  // Sends the headers now. Fails if they were sent, if the call was answered, or if they are too large.
  // Clients of protocol versions below 4 do not get them.
  Status send_headers();
  // Metadata to send back with the result or the status.
  [[nodiscard]] Metadata& trailers() { return trailers_; }
  // The trace context to hand on to calls that the handler makes: that of this call's span if there is
  // ServerOptions::spans, otherwise the caller's. Empty if the caller sent none, either.
  [[nodiscard]] std::optional<TraceContext> trace() const;
  [[nodiscard]] const Method& method() const { return *method_; }
  // The caller's address as reported by rdma_cm. It identifies a host, not a user; see ServerOptions::secret.
  [[nodiscard]] std::string_view peer() const;
  [[nodiscard]] comm::Context& context() const { return *context_; }

  // True if the result is no longer wanted: the caller cancelled, the deadline passed, or the connection
  // ended.
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  // A stop token for operations of the library. Stops when the call is cancelled.
  [[nodiscard]] std::stop_token stop();
  // The caller's deadline, in this machine's time.
  [[nodiscard]] comm::Clock::time_point deadline() const { return deadline_; }
  // Deadline and stop token together, for the handler's own operations and calls.
  [[nodiscard]] comm::Limit limit() { return comm::Limit(deadline_, stop()); }

 protected:
  explicit Call(comm::Context& context) : context_(&context) {}
  ~Call() = default;

  comm::Context* context_;
  const Method* method_ = nullptr;
  detail::ServerConnection* connection_ = nullptr;
  Metadata metadata_;
  Metadata headers_;
  Metadata trailers_;
  comm::Clock::time_point deadline_ = comm::Clock::time_point::max();
  bool cancelled_ = false;
  std::optional<std::stop_source> stop_;
};

namespace detail {

// A Call as the server sees it.
class RRDMA_RPC_API ServerCall final : public Call {
 public:
  ServerCall(comm::Context& context, ServerConnection& connection);
  ~ServerCall();

  Payload& argument() { return argument_; }
  [[nodiscard]] const comm::detail::Ref<Inbound>& inbound() const { return inbound_; }
  [[nodiscard]] const comm::detail::Ref<Outbound>& outbound() const { return outbound_; }

  // Ends the call. Only the first end counts. ServerOptions::after gets `known`.
  void fail(Status told, const Status& known);
  void fail(const Status& status) { fail(status, status); }
  template <typename R>
  void reply(R& value) {
    if (replied_) return;
    const std::size_t size = Codec<R>::size(value);
    if constexpr (IsBulk<R>::value) {
      if (!eager(size)) return reply_from(std::move(value.memory()));
    }
    if (std::byte* room = prepare(size)) {
      Codec<R>::encode(value, {room, size});
      send_prepared();
    }
  }

 private:
  friend class ServerConnection;
  friend class rpc::Call;

  [[nodiscard]] bool eager(std::size_t size) const;
  // Returns memory for the result: in the reply's frame or separate. Null if the call has failed.
  std::byte* prepare(std::size_t size);
  void send_prepared();
  void reply_from(comm::Buffer octets);
  // Sends headers that the handler left.
  void send_last_headers();
  void send_parts(std::span<const std::byte> octets);
  void cancel(Status status);
  // Copies that the handler left stay closed.
  void close_streams();

  std::uint32_t id_ = 0;
  Served* served_ = nullptr;
  std::uint64_t begun_ = 0;  // in ticks
  Payload argument_;
  comm::RemoteSpan<const std::byte> offered_;
  std::uint64_t seal_ = 0;  // the number that the offered argument was encrypted with
  comm::RemoteSpan<std::byte> lent_;
  FrameMemory reply_;            // the reply, with the result inside
  std::size_t result_head_ = 0;  // bytes before the result in reply_; 0: the result is in result_
  comm::Buffer result_;          // a result outside the reply's frame
  bool replied_ = false;
  bool headed_ = false;        // the headers were sent
  bool transferring_ = false;  // the device reads the argument; the caller's memory must stay open
  Status pending_;             // the reason for a cancellation during the transfer
  comm::Alarm alarm_;
  comm::detail::Ref<Inbound> inbound_;  // null for calls without this stream
  comm::detail::Ref<Outbound> outbound_;
  ServerCall* next_free_ = nullptr;
  std::unique_ptr<OpenSpan> span_;  // null: nobody wants it
  std::size_t metadata_held_ = 0;   // bytes of the connection's memory, for metadata_
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
