// `rrdma rpc bench`: calls again and again, and draws how long they took.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "rrdma/rpc/rpc.h"

namespace rrdma::rpc::tool {

struct Load {
  std::uint64_t calls = 10000;
  unsigned under_way = 1;
};

// Makes the calls, with a bar of progress on standard error where that is a terminal. Throws rpc::Failure when one of them fails.
comm::Task<> measure(rpc::Channel& channel, rpc::Method method, std::string argument, Load load,
                     rpc::Latencies& latencies);

// Rate, percentiles and a histogram, each line ended.
std::string report(const rpc::Latencies& latencies, std::chrono::nanoseconds took);

}  // namespace rrdma::rpc::tool
