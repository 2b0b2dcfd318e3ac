// Server: answers calls that arrive at a port. It belongs to its context's thread. Its handlers run as
// coroutines in that thread. With ServerOptions::threads, they run in the thread that serves their
// connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/comm/context.h"
#include "rrdma/comm/task.h"
#include "rrdma/rpc/encryption.h"
#include "rrdma/rpc/handler.h"
#include "rrdma/rpc/log.h"
#include "rrdma/rpc/spans.h"
#include "rrdma/rpc/statistics.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

namespace detail {
class ServerState;
}

struct ServerOptions {
  std::size_t max_argument = 64 << 20;  // bytes of the largest argument or stream item; at least 4096
  std::uint16_t max_calls = 1024;       // concurrent calls of one connection
  std::uint32_t window = 64 << 10;      // bytes of a client's stream in flight; at least 16 KiB
  // Bytes of large arguments, unread stream items and metadata that one connection may hold. As many bytes of
  // results and items may wait until the client takes them; its next calls wait meanwhile.
  std::size_t connection_memory = 256 << 20;
  // Interval after which a silent client is probed. One that does not answer for this long again, at least a
  // second, is gone.
  std::chrono::milliseconds keep_alive{2000};
  // A secret that clients must know; empty admits every client.
  std::string secret = {};
  // Needs a secret; without one, kOtherHosts encrypts nothing.
  Encryption encryption = Encryption::kOtherHosts;
  // Connections of each thread that have not proved the secret yet. A further one ends the oldest such
  // connection of the address that has the most of them.
  std::size_t max_unproven = 64;
  // Called before each handler, in its thread. If it returns an error, the call ends with that status.
  std::function<Status(Call&)> before = {};
  // Called once at the end of each call that started, when its reply is sent. If the handler threw an
  // exception, the status has its text, which the caller does not get (except that of a Failure).
  std::function<void(const Call&, const Status&)> after = {};
  Log log = {};              // gets the events of connections
  SpanSink spans = {};       // gets a span of each call that started
  std::uint16_t depth = 64;  // frames of one connection that the server has room for
  // Enables rrdma.Health, rrdma.Reflection and rrdma.Metrics, which `rrdma rpc` queries.
  bool reflection = true;
  // The number of threads that share the connections, each with its own context. With 0, the server's context
  // serves all connections. With threads, methods and `before` run concurrently; each connection stays in one
  // thread.
  unsigned threads = 0;
  // Options of these contexts. They use the server's device by default.
  comm::ContextOptions thread_context = {};
};

class RRDMA_RPC_API Server {
 public:
  explicit Server(comm::Context& context, const ServerOptions& options = {});
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  // Ends everything immediately: destroys suspended handlers and aborts connections.
  ~Server();

  // Adds a method. `service` must outlive the server. A method with the same name is replaced.
  template <auto kFunction>
  void add(typename MethodOf<kFunction>::Service& service) {
    add(detail::handler_of<kFunction>(service));
  }
  // Adds all methods of a service that protoc-gen-rrdma described.
  template <typename Service>
  requires requires(Service& service) { service.rrdma_handlers(); }
  void add(Service& service) {
    for (detail::Handler& handler : service.rrdma_handlers()) add(std::move(handler));
    if constexpr (requires { Service::rrdma_descriptors(); })
      describe(Service::rrdma_service(), Service::rrdma_descriptors());
  }
  void add(detail::Handler handler);

  // Sets the description that rrdma.Reflection returns: a serialized google.protobuf.FileDescriptorSet.
  void describe(std::string_view service, std::string_view descriptors);
  // Sets the state that rrdma.Health reports for a service. Services start as serving. A draining server
  // reports none as serving.
  void set_serving(std::string_view service, bool serving);

  // Listens on "host:port", ":port" or port 0, and answers calls from now on.
  Status listen(std::string_view address);
  // The same for a server that replaces another one, for instance that of an older process: waits as long as
  // another one listens there. The other one drains as soon as this one is ready to serve. No call of a
  // Client with ClientOptions::wait_for_ready is lost.
  [[nodiscard]] comm::Task<Status> take_over(std::string address, comm::Limit limit = {});
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string_view address() const;

  // Accepts no new connections or calls, waits for the calls in flight, and closes. When the limit is
  // reached, aborts the remaining calls and returns an error.
  [[nodiscard]] comm::Task<Status> drain(comm::Limit limit = {});
  // Ends all connections immediately. Callers get kUnavailable.
  void abort();

  [[nodiscard]] std::size_t connections() const;
  // The number of running handlers.
  [[nodiscard]] std::size_t calls() const;
  [[nodiscard]] ServerCounters counters() const;
  // All counters, by method. ServerStatistics::prometheus() formats them for Prometheus.
  [[nodiscard]] comm::Task<ServerStatistics> statistics();

 private:
  std::unique_ptr<detail::ServerState> state_;
};

}  // namespace v0
}  // namespace rrdma::rpc
