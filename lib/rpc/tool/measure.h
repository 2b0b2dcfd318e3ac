// `rrdma rpc bench`: repeats a call and shows the distribution of its latency.
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

// Makes the calls. Shows a progress bar on standard error if that is a terminal. Throws rpc::Failure if a
// call fails.
comm::Task<> measure(rpc::Channel& channel, rpc::Method method, std::string argument, Load load,
                     rpc::Latencies& latencies);

// Rate, percentiles and a histogram; each line ends with a newline.
std::string report(const rpc::Latencies& latencies, std::chrono::nanoseconds took);

}  // namespace rrdma::rpc::tool
