// RDMA and TCP in one Asio loop: forwards data from a TCP port to an echo server over RDMA, and its answers
// back. `asio_echo PORT ADDRESS` serves one TCP client. ADDRESS is the address of `echo ADDRESS`.
#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <cstdio>
#include <cstdlib>

#include "rrdma/comm/asio.h"
#include "rrdma/comm/comm.h"

using namespace rrdma::comm;
using asio::ip::tcp;

namespace {

class Bridge {
 public:
  Bridge(asio::io_context& loop, Endpoint end) : socket_(loop), end_(std::move(end)), loop_(&loop) {}
  tcp::socket& socket() { return socket_; }

  void read() {
    socket_.async_read_some(asio::buffer(octets_), [this](const asio::error_code& error, std::size_t size) {
      if (error) return loop_->stop();
      // then() starts the operation, which copies the data.
      then(end_.send(std::as_bytes(std::span(octets_.data(), size))), [this](const Result<void>& sent) {
        if (!sent) return loop_->stop();
        then(end_.receive(), [this](Result<Message> answer) {
          if (!answer) return loop_->stop();
          asio::error_code failed;
          asio::write(socket_, asio::buffer(answer->text()), failed);
          failed ? loop_->stop() : read();
        });
      });
    });
  }

 private:
  tcp::socket socket_;
  Endpoint end_;
  asio::io_context* loop_;
  std::array<char, 1024> octets_{};
};

}  // namespace

int main(int count, char** words) try {
  if (count != 3) return std::fprintf(stderr, "usage: asio_echo PORT ADDRESS\n"), 2;
  Context context = Context::open().value_or_throw();
  Endpoint end = context.run(as_task(context.connect(words[2], std::chrono::seconds(5)))).value_or_throw();
  asio::io_context loop;
  AsioDriver driver(loop, context);
  Bridge bridge(loop, std::move(end));
  tcp::acceptor acceptor(loop, tcp::endpoint(asio::ip::address_v4::loopback(),
                                             static_cast<unsigned short>(std::atoi(words[1]))));
  acceptor.async_accept(bridge.socket(), [&](const asio::error_code& error) {
    if (!error) bridge.read();
  });
  std::printf("listening at port %s\n", words[1]);
  std::fflush(stdout);
  loop.run();
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
