#include "lib/rpc/line.h"

#include "rrdma/comm/scope.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

void Line::post(comm::Buffer frame) {
  if (!frame || !endpoint_.open()) return;
  ++unsent_->count;
  comm::then(endpoint_.send(std::move(frame)), Sent{unsent_});
}

void Line::post(const Frame& head) {
  comm::Buffer memory = frame(head_size(head));
  if (!memory) return;
  emit_head(head, memory.data());
  post(std::move(memory));
}

void Line::post(comm::Buffer octets, const Region& into) {
  if (!endpoint_.open()) return;
  ++unsent_->count;
  const comm::RemoteSpan<std::byte> target(into.address, into.key, into.length);
  comm::then(endpoint_.write(std::move(octets), target), Sent{unsent_});
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
