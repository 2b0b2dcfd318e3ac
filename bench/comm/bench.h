// What the parts of comm_bench share: a sign that a server is ready, and how a figure is printed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace comm_bench {

using Time = std::chrono::steady_clock;

struct Arguments {
  std::string host;
  std::uint16_t port = 0;
  std::uint64_t count = 0;
  std::uint64_t size = 0;
};

inline double nanoseconds_since(Time::time_point begin) {
  return std::chrono::duration<double, std::nano>(Time::now() - begin).count();
}

// Opens a TCP port beside the RDMA one: bench/stage.py looks for that.
void say_ready(const Arguments& arguments);

// Each prints lines "NAME VALUE".
int bare_serve(const Arguments& arguments);
int bare_latency(const Arguments& arguments);
int tcp_serve(const Arguments& arguments);
int tcp_latency(const Arguments& arguments);
int library_serve(const Arguments& arguments);
int library_lie_still(
    const Arguments& arguments);  // the same for one-sided operations: sleeps, as perftest's does
int library_latency(const Arguments& arguments);
int library_rate(const Arguments& arguments);
int library_read(const Arguments& arguments);
int library_write(const Arguments& arguments);
int library_endpoints(const Arguments& arguments);

}  // namespace comm_bench
