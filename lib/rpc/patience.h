// The wait of a server for the next step of a client, before it gives up. It is counted in ticks: a program
// that was itself stopped, or busy, gets one late tick, and finds that step before the next one.
#pragma once

#include <chrono>

#include "rrdma/comm/context.h"
#include "rrdma/comm/task.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

constexpr std::chrono::milliseconds kPatienceTick{1000};
constexpr int kPatienceTicks = 10;

inline comm::Task<void> patience(comm::Context& context, std::chrono::milliseconds tick = kPatienceTick) {
  for (int i = 0; i < kPatienceTicks; ++i) static_cast<void>(co_await context.sleep(tick));
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
