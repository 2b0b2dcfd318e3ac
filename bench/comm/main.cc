// comm_bench PROGRAM HOST PORT [COUNT [SIZE]]: one side of a measurement of rrdma::comm or of a comparison.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string_view>

#include "bench/comm/bench.h"

namespace comm_bench {

void say_ready(const Arguments& arguments) {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(arguments.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(file, 1) != 0)
    std::perror("comm_bench: the TCP port");
}

}  // namespace comm_bench

int main(int count, char** words) try {
  using namespace comm_bench;
  const std::map<std::string_view, int (*)(const Arguments&)> programs = {
      {"bare-serve", &bare_serve},   {"bare-latency", &bare_latency},   {"tcp-serve", &tcp_serve},
      {"tcp-latency", &tcp_latency}, {"serve", &library_serve},         {"lie-still", &library_lie_still},
      {"latency", &library_latency}, {"rate", &library_rate},           {"read", &library_read},
      {"write", &library_write},     {"endpoints", &library_endpoints},
  };
  const auto program = count >= 4 ? programs.find(words[1]) : programs.end();
  if (program == programs.end())
    return std::fprintf(stderr, "usage: comm_bench PROGRAM HOST PORT [COUNT [SIZE]]\n"), 2;
  Arguments arguments{words[2], static_cast<std::uint16_t>(std::atoi(words[3])),
                      count > 4 ? std::strtoull(words[4], nullptr, 10) : 0,
                      count > 5 ? std::strtoull(words[5], nullptr, 10) : 0};
  return program->second(arguments);
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "comm_bench: %s\n", failure.what()), 1;
}
