// Server: answers calls that come to a port. It belongs to its context's thread; its handlers are coroutines of that thread, or of
// the thread that their connection was given to where the server has several (ServerOptions::threads).
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
#include "rrdma/rpc/handler.h"
#include "rrdma/rpc/statistics.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

namespace detail {
class ServerState;
}

struct ServerOptions {
  std::size_t max_argument = 64 << 20;  // octets of the largest argument, and of the largest item of a stream
  std::uint16_t max_calls = 1024;       // of one connection at a time
  std::uint32_t window = 64 << 10;      // octets of a client's stream under way, at least 16 KiB
  std::size_t connection_memory = 256 << 20;   // octets of large arguments that one connection may hold
  std::chrono::milliseconds keep_alive{2000};  // a silent client is asked whether it is still there
  // What clients must know as well; empty: everybody is let in. It keeps strangers out; it encrypts nothing, since RDMA has no TLS.
  std::string secret = {};
  // Asked before each handler, on its thread: what is not good ends the call with that status.
  std::function<Status(Call&)> before = {};
  // Told how each call ended that was begun, once, when its reply is sent.
  std::function<void(const Call&, const Status&)> after = {};
  std::uint16_t depth = 64;  // frames of one connection that the server has room for
  // Whether rrdma.Health, rrdma.Reflection and rrdma.Metrics answer: what `rrdma rpc` asks.
  bool reflection = true;
  // Threads with a context each, that connections are spread over; 0: the server's own context serves them all. With threads,
  // methods of a service run in all of them at the same time, and so does `before`; one connection stays in one thread.
  unsigned threads = 0;
  comm::ContextOptions thread_context =
      {};  // how those contexts are opened; of the server's device unless it names one
};

class RRDMA_RPC_API Server {
 public:
  explicit Server(comm::Context& context, const ServerOptions& options = {});
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  // Ends everything at once: handlers are destroyed where they wait, connections aborted.
  ~Server();

  // Adds a method; `service` must outlive the server. Two methods of one name: the later one counts.
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

  // What rrdma.Reflection tells of a service: a serialized google.protobuf.FileDescriptorSet.
  void describe(std::string_view service, std::string_view descriptors);
  // What rrdma.Health tells of a service, from now on; they are well at first. A server that drains is not.
  void set_serving(std::string_view service, bool serving);

  // Listens at "host:port", ":port" or port 0, and answers from now on.
  Status listen(std::string_view address);
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string_view address() const;

  // Takes no new connections and no new calls, lets those under way end, and closes. What has not ended when the limit is reached
  // is aborted, and the result says so.
  [[nodiscard]] comm::Task<Status> drain(comm::Limit limit = {});
  // Ends all connections now; callers see kUnavailable.
  void abort();

  [[nodiscard]] std::size_t connections() const;
  // Handlers that run.
  [[nodiscard]] std::size_t calls() const;
  [[nodiscard]] ServerCounters counters() const;
  // All that is counted, by method; statistics.prometheus() is its text for Prometheus.
  [[nodiscard]] comm::Task<ServerStatistics> statistics();

 private:
  std::unique_ptr<detail::ServerState> state_;
};

}  // namespace v0
}  // namespace rrdma::rpc
