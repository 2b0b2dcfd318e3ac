// ClientConnection: one connection of a client, and its calls by slot. A call that was given up keeps its
// slot and its memory until the server has answered, because the server's device may still read or write that
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/rpc/frame.h"
#include "lib/rpc/line.h"
#include "rrdma/comm/comm.h"
#include "rrdma/rpc/channel.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

struct ClientCall {
  std::uint32_t id = 0;
  bool active = false;  // between the call and its reply
  bool held = false;    // a CallHandle refers to it
  bool replied = false;
  bool fetching = false;  // the reply has arrived, and its result is being read
  bool streams = false;
  Status status;
  Metadata headers;
  bool headed = false;  // the headers have arrived
  Metadata trailers;
  Payload body;
  std::string parts;
  Offer offered;
  comm::Buffer lent;
  comm::Share<std::byte> lent_share;
  WaitPlace place;
  WaitPlace headers_place;
  Status given_up;                     // set if the caller's limit ended a stream before its reply
  comm::Signal* watch = nullptr;       // of the coroutine that watches the limit
  comm::detail::Ref<Inbound> inbound;  // null for calls without this stream
  comm::detail::Ref<Outbound> outbound;
  ClientCall* next_free = nullptr;
  std::unique_ptr<OpenSpan> span;
  // Used only for ChannelOptions::after and spans.
  Method method;
  comm::Clock::time_point begun;
  comm::Clock::time_point deadline;

  ClientCall() = default;
  ClientCall(const ClientCall&) = delete;
  ClientCall& operator=(const ClientCall&) = delete;
  ~ClientCall() { close_streams(); }
  // Handles that the caller still holds stay closed.
  void close_streams() {
    if (inbound) inbound->close();
    if (outbound) outbound->close();
    inbound.reset();
    outbound.reset();
  }
  void end_streams(const Status& in, const Status& out) const {
    if (outbound) outbound->end(out);
    if (inbound) inbound->end(in);
  }
};

class ClientConnection;

// Waits for a free slot. A waiter that is offered a slot may be destroyed or time out; the next waiter is
// then offered it.
class RoomWaiter : public comm::detail::Link {
 public:
  RoomWaiter(ClientConnection& connection, comm::Limit limit);
  RoomWaiter(const RoomWaiter&) = delete;
  RoomWaiter& operator=(const RoomWaiter&) = delete;
  ~RoomWaiter();
  comm::Signal signal;

 private:
  ClientConnection* connection_;
};

class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  ClientConnection(comm::Context& context, comm::Endpoint endpoint, const ChannelOptions& options,
                   const ServerHello& server);
  ~ClientConnection();
  // Starts receiving.
  void start();
  void close();
  // Proves to the server that this end knows the secret. The first frame of a connection.
  void prove(const Proof& proof);
  // The same for an encrypted connection. `body`: of the KEY frame.
  void encrypt(std::span<const std::byte> body, const SealKeys& keys);

  [[nodiscard]] bool usable() const { return !over_ && !going_away_; }
  [[nodiscard]] bool has_room() const { return free_ != nullptr || calls_.size() < server_.max_calls; }
  // REQUIRES: usable(), has_room().
  ClientCall* begin(Request& request, Status& status);
  void await_room(RoomWaiter& waiter) { waiting_.push_back(&waiter); }
  // Notifies the longest waiter if there is room.
  void offer_room();
  // Fails if the server takes no argument of this size.
  [[nodiscard]] Status admit_argument(std::size_t size) const;
  // Runs ChannelOptions::before.
  void intercept(const Method& method, CallOptions& options, Status& status) const {
    if (options_.before) status = options_.before(method, options);
  }
  // Opens the span of a call, if somebody wants it.
  [[nodiscard]] std::unique_ptr<OpenSpan> open_span(CallOptions& options) const {
    if (!options_.spans) return nullptr;
    auto span = std::make_unique<OpenSpan>(Span::Kind::kClient, options.metadata);
    span->mark(options.metadata);
    return span;
  }
  // The caller has destroyed the handle.
  void abandon(ClientCall* call);
  [[nodiscard]] Status why() const;

  Line& line() { return line_; }
  // The place to wait until it is no longer usable().
  WaitPlace& lost() { return lost_; }
  [[nodiscard]] std::size_t under_way() const { return under_way_; }
  [[nodiscard]] const std::string& peer() const { return peer_; }

 private:
  static comm::detail::Detached run(std::shared_ptr<ClientConnection> self);
  // Ends a stream at its caller's limit, even if no coroutine reads or writes it.
  static comm::detail::Detached watch(std::shared_ptr<ClientConnection> self, ClientCall* call,
                                      comm::Limit limit);
  void give_up(ClientCall* call, Status status);
  void tell_cancelled(const ClientCall& call);
  // Returns false if the peer violated the protocol.
  void post_first(Kind kind, std::span<const std::byte> body);
  bool handle(comm::Message& message);
  bool handle(const Frame& frame, const comm::Message& message);
  bool handle_reply(ClientCall* call, const Frame& frame, const comm::Message& message);
  bool handle_part(ClientCall* call, const Frame& frame);
  bool handle_headers(ClientCall* call, const Frame& frame) const;
  // Reads an offered result.
  bool fetch_result(ClientCall* call, const Region& region);
  ClientCall* find(std::uint32_t id);
  ClientCall* take_slot();
  Status share_memory(ClientCall* call, Request& request, Frame& frame);
  // Handles the reply: closes the memory that was open to the server.
  void settle(ClientCall* call, Status status, bool sent = true);
  void free_slot(ClientCall* call);
  // Tells `after` and `spans`.
  void tell_end(const ClientCall& call, const Status& status) const;
  [[nodiscard]] bool tells() const { return options_.after || options_.spans; }
  void end(Status status);
  // The status after a violation of the protocol.
  [[nodiscard]] Status broken() const;

  Line line_;
  ChannelOptions options_;
  ServerHello server_;
  std::string peer_;
  std::vector<std::unique_ptr<ClientCall>> calls_;
  ClientCall* free_ = nullptr;
  std::size_t under_way_ = 0;
  comm::detail::List<RoomWaiter> waiting_;
  bool over_ = false;
  bool going_away_ = false;
  WaitPlace lost_;
  Status why_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
