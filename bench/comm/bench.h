// Shared by the parts of comm_bench: the ready signal of a server, and the output of figures.
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

// Opens a TCP port beside the RDMA port; bench/stage.py waits for it.
void say_ready(const Arguments& arguments);

// Each prints lines "NAME VALUE".
int bare_serve(const Arguments& arguments);
int bare_latency(const Arguments& arguments);
int tcp_serve(const Arguments& arguments);
int tcp_latency(const Arguments& arguments);
int library_serve(const Arguments& arguments);
int library_lie_still(
    const Arguments& arguments);  // for one-sided operations: sleeps like the server of perftest
int library_latency(const Arguments& arguments);
int library_rate(const Arguments& arguments);
int library_read(const Arguments& arguments);
int library_write(const Arguments& arguments);
int library_endpoints(const Arguments& arguments);

}  // namespace comm_bench
