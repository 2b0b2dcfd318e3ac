// ListenerState: a listening id, pending connection requests, and their waiters.
#pragma once

#include <rdma/rdma_cma.h>

#include <deque>
#include <string>

#include "lib/comm/hello.h"
#include "lib/comm/reactor.h"
#include "rrdma/comm/listener.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

// A connection request. Refused when destroyed.
struct IncomingState {
  rdma_cm_id* id = nullptr;
  Hello hello;
  rdma_conn_param parameters{};
  std::string peer;

  ~IncomingState();
  void refuse(const RefusalNote& note);
};

class ListenerState final : public Resident, public CmTarget {
 public:
  explicit ListenerState(Ref<Reactor> reactor) : reactor_(std::move(reactor)) {}
  ~ListenerState() override;

  Result<void> listen(std::string_view address, int backlog);
  void stop();
  void handle_event(const rdma_cm_event& event) override;
  void shut_down() override { stop(); }
  // Takes the next request. May be empty.
  Incoming take();
  void wait(Operation* waiter) { waiters_.push_back(waiter); }
  [[nodiscard]] const Ref<Reactor>& reactor() const { return reactor_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] bool stopped() const { return id_ == nullptr; }

 private:
  void serve();
  Ref<Reactor> reactor_;
  rdma_cm_id* id_ = nullptr;
  std::string address_;
  std::uint16_t port_ = 0;
  std::size_t most_pending_ = 0;
  std::deque<Incoming> pending_;
  List<Operation> waiters_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
