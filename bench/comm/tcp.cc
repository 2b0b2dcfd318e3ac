// The common alternative: a ping-pong over TCP with Asio, blocking on both sides.
#include <array>
#include <asio/buffer.hpp>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstdio>

#include "bench/comm/bench.h"

namespace comm_bench {

using asio::ip::tcp;

int tcp_serve(const Arguments& arguments) {
  asio::io_context loop;
  tcp::acceptor acceptor(loop, tcp::endpoint(asio::ip::address_v4::loopback(), arguments.port));
  tcp::socket socket = acceptor.accept();
  socket.set_option(tcp::no_delay(true));
  std::array<char, 8> octets{};
  asio::error_code over;
  while (asio::read(socket, asio::buffer(octets), over) == octets.size())
    asio::write(socket, asio::buffer(octets), over);
  return 0;
}

int tcp_latency(const Arguments& arguments) {
  asio::io_context loop;
  tcp::socket socket(loop);
  socket.connect(tcp::endpoint(asio::ip::address_v4::loopback(), arguments.port));
  socket.set_option(tcp::no_delay(true));
  std::array<char, 8> octets{};
  const auto exchange = [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      asio::write(socket, asio::buffer(octets));
      asio::read(socket, asio::buffer(octets));
    }
  };
  exchange(arguments.count / 10 + 100);
  const Time::time_point begin = Time::now();
  exchange(arguments.count);
  std::printf("latency_ns %.1f\n", nanoseconds_since(begin) / static_cast<double>(2 * arguments.count));
  return 0;
}

}  // namespace comm_bench
