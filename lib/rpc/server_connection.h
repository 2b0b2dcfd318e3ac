// ServerConnection: one client of a server: its calls by slot, and its running handlers. ServerState: the
// methods, the port and all connections.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/rpc/directory.h"
#include "lib/rpc/frame.h"
#include "lib/rpc/handshake.h"
#include "lib/rpc/line.h"
#include "lib/rpc/ticks.h"
#include "rrdma/rpc/server.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

class ServerState;
class Worker;

// A counter that one thread increments and any thread may read.
class Count {
 public:
  void operator++() { value_.store(value() + 1, std::memory_order_relaxed); }
  std::uint64_t operator--() {
    const std::uint64_t less = value() - 1;
    value_.store(less, std::memory_order_relaxed);
    return less;
  }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A method of the server, and its statistics in this thread.
struct Served {
  Handler handler;
  bool built_in = false;  // each part of the server has its own
  std::uint64_t running = 0;
  std::array<std::uint64_t, kHighestCode + 1> ended = {};
  Latencies latencies;
};

// The counters behind ServerCounters.
struct ServerCounts {
  Count connections, refused, broken, calls, good;
};

// Counts a connection that has not proved the secret yet, from its request until settle() or its end.
class Unproven {
 public:
  // Null if the server has no secret.
  explicit Unproven(std::size_t* count) : count_(count) {
    if (count_ != nullptr) ++*count_;
  }
  Unproven(const Unproven&) = delete;
  Unproven& operator=(const Unproven&) = delete;
  ~Unproven() { settle(); }
  [[nodiscard]] bool counted() const { return count_ != nullptr; }
  void settle() {
    if (count_ != nullptr) --*count_;
    count_ = nullptr;
  }

 private:
  std::size_t* count_;
};

class ServerConnection final : public comm::detail::Link {
 public:
  // The client's duty in its first frame: a proof, a KEY or neither.
  struct Expected {
    std::optional<Proof> proof;
    std::optional<Handshake> handshake;
    explicit operator bool() const { return proof || handshake; }
  };
  ServerConnection(ServerState& server, comm::Endpoint endpoint, const ClientHello& hello,
                   std::uint8_t version, Expected expected, Unproven& unproven);
  ~ServerConnection();

  // Serves the client until the connection and all its handlers have ended.
  comm::Task<void> run();
  // Tells the client that no new calls are accepted.
  void go_away();
  void abort();
  // Closes the connection once everything posted has arrived and everything offered was taken.
  void leave();

  // Whether it has yet to prove the secret.
  [[nodiscard]] bool unproven() const { return unproven_->counted(); }

  Line& line() { return line_; }
  [[nodiscard]] const ClientHello& hello() const { return hello_; }
  // The reply was sent, so the call id may be reused.
  void replied(const ServerCall& call, const Status& status);

 private:
  // While the client has yet to show the secret.
  comm::Task<comm::Result<comm::Message>> receive_first();
  // Returns false if the client violated the protocol.
  bool handle(comm::Message& message);
  void announce();
  // Handles the client's first frame.
  bool handle_first(const Frame& frame);
  bool handle(const Frame& frame, const comm::Message& message);
  bool handle_call(const Frame& frame, const comm::Message& message);
  // Returns an error if the call must not start.
  Status admit(const Frame& frame, Served*& served);
  ServerCall* begin(const Frame& frame, const comm::Message& message, Served& served);
  void start(ServerCall* call);
  void refuse(std::uint32_t call, Status status);
  comm::Task<void> serve(ServerCall* call);
  // Runs a handler that does not suspend, with an argument that has arrived completely.
  void serve_now(ServerCall* call);
  // Runs ServerOptions::before.
  Status permit(ServerCall* call) const;
  // Ends the call with the status of its handler.
  void conclude(ServerCall* call, Status status);
  // Waits while the client leaves too many results untaken, or until the call is cancelled.
  comm::Task<void> until_taken(ServerCall* call);
  // Reads a large argument from the caller's memory. Waits while the connection has no memory for it.
  comm::Task<Status> fetch(ServerCall* call);
  // Whether the connection is within its memory.
  [[nodiscard]] bool has_room() const;
  ServerCall* find(std::uint32_t id);
  void finish(ServerCall* call);
  static constexpr std::uint32_t slot_of(std::uint32_t id) { return id & 0xffff; }

  ServerState* server_;
  ClientHello hello_;
  Expected expected_;
  Unproven* unproven_;
  Line line_;
  comm::Pool memory_;               // for large arguments
  std::vector<ServerCall*> slots_;  // by slot, until the reply
  std::vector<std::unique_ptr<ServerCall>> calls_;
  ServerCall* free_ = nullptr;
  std::size_t running_ = 0;
  Ticks arrived_ = 0;  // arrival time of the current message
  bool going_away_ = false;
  bool leaving_ = false;
  comm::Scope handlers_;  // last, and thus destroyed first
};

// A server, or its part in one of the server's threads.
class ServerState {
 public:
  ServerState(comm::Context& context, const ServerOptions& options);
  // Creates the part of `whole` in another thread.
  ServerState(comm::Context& context, const ServerOptions& options, ServerState& whole);
  ~ServerState();

  void add(Handler handler);
  void set_serving(std::string_view service, bool serving) { directory_->set_serving(service, serving); }
  void describe(std::string_view service, std::string_view descriptors) {
    directory_->describe(service, descriptors);
  }
  Status listen(std::string_view address);
  comm::Task<Status> take_over(std::string address, comm::Limit limit);
  comm::Task<Status> drain(comm::Limit limit);
  void abort();
  // Accepts or refuses a client, and serves it until the connection ends.
  comm::Task<void> serve(comm::Incoming incoming);

  [[nodiscard]] Served* find(std::uint64_t method) const;
  [[nodiscard]] comm::Context& context() const { return *context_; }
  [[nodiscard]] const ServerOptions& options() const { return options_; }
  [[nodiscard]] comm::Listener& listener() { return listener_; }
  // Totals of all threads.
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::size_t calls() const;
  [[nodiscard]] ServerCounters counters() const;
  // Statistics of the whole server. Callable in any of its threads.
  comm::Task<ServerStatistics> statistics();
  // Statistics of this thread only.
  comm::Task<ServerStatistics> own_statistics();

  ServerCounts& counts() { return counts_; }
  void log(LogLevel level, std::string_view event, std::string_view peer, std::string_view words = {}) const {
    if (options_.log) options_.log({level, event, peer, words});
  }
  void call_began() { ++running_; }
  void call_ended() {
    if (--running_ == 0) idle_.give();
  }
  void moved_in(ServerConnection* connection) {
    connections_.push_back(connection);
    ++connected_;
  }
  void moved_out() {
    if (--connected_ == 0) idle_.give();
  }

 private:
  // Accepts clients from now on.
  Status serve_at(comm::Listener listener);
  comm::Task<void> accept_all();
  // Decides whether to serve the client, and whether to encrypt. False if the client was refused.
  bool agrees(comm::Incoming& incoming, const std::optional<ClientHello>& hello, bool& encrypt);
  [[nodiscard]] ServerHello answer_to(const comm::Incoming& incoming, const ClientHello& hello, bool encrypt,
                                      ServerConnection::Expected& expected) const;
  // Makes room for one more connection without a proof. False if there is none.
  bool make_room_for_unproven();
  Status start_workers();
  // Waits until `count` is zero.
  comm::Task<Status> until_none(const Count& count, comm::Limit limit);
  // Like drain(), for this thread only.
  comm::Task<Status> drain_own(comm::Limit limit);
  comm::Task<ServerStatistics> statistics_of_all();
  void keep(Handler handler, bool built_in);

  comm::Context* context_;
  ServerOptions options_;
  ServerState* whole_ = nullptr;
  std::shared_ptr<Directory> directory_;
  Versions versions_;
  Health health_;
  Reflection reflection_;
  Metrics metrics_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Served>> methods_;
  std::vector<std::unique_ptr<Served>> replaced_;
  mutable Served* last_found_ = nullptr;
  comm::Listener listener_;
  comm::detail::List<ServerConnection> connections_;
  Count connected_;
  Count running_;
  std::size_t unproven_ = 0;
  bool draining_ = false;
  unsigned aborts_ = 0;  // detects connections accepted while abort() runs
  WaitPlace idle_;
  ServerCounts counts_;
  std::vector<std::unique_ptr<Worker>> workers_;
  comm::Scope scope_;  // last, and thus destroyed first
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
