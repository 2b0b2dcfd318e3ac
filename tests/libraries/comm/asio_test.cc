// A context in an Asio loop: RDMA and Asio's timers and sockets in one thread.
#include "rrdma/comm/asio.h"

#include <asio/io_context.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

#include "tests/libraries/comm/world.h"

namespace comm_test::asio_test {

class InAsio : public World {
 public:
  using World::connected;
  using World::context_;

 protected:
  asio::io_context loop_;
};

TEST_F(InAsio, MessagesTimersAndSocketsShareAThread) {
  AsioDriver driver(loop_, context_);
  int rounds = 0;
  int ticks = 0;
  asio::local::stream_protocol::socket near(loop_);
  asio::local::stream_protocol::socket far(loop_);
  asio::local::connect_pair(near, far);
  // A byte from the socket travels through RDMA and back.
  auto exchange = [](InAsio& self, asio::local::stream_protocol::socket& out, int& count) -> Task<> {
    Pair pair = co_await self.connected();
    for (; count < 100; ++count) {
      (co_await pair.client.send(count, kPatience)).value_or_throw();
      EXPECT_EQ((co_await pair.server.receive(kPatience)).value_or_throw().as<int>(), count);
    }
    (co_await self.context_.sleep(5ms)).value();
    const char done = '!';
    asio::write(out, asio::buffer(&done, 1));
  }(*this, near, rounds);
  exchange.start(std::noop_coroutine());
  asio::steady_timer timer(loop_);
  std::function<void(const asio::error_code&)> tick = [&](const asio::error_code& error) {
    if (error || ++ticks > 1000) return;
    timer.expires_after(1ms);
    timer.async_wait(tick);
  };
  tick({});
  char octet = 0;
  asio::async_read(far, asio::buffer(&octet, 1), [&](const asio::error_code&, std::size_t) { loop_.stop(); });
  asio::steady_timer patience(loop_, kPatience);
  patience.async_wait([&](const asio::error_code& error) {
    if (!error) loop_.stop();
  });
  loop_.run();
  EXPECT_EQ(octet, '!');
  EXPECT_EQ(rounds, 100);
  EXPECT_GE(ticks, 1) << "the loop's own work goes on";
  EXPECT_TRUE(exchange.done());
}

TEST_F(InAsio, ADriverThatEndsLeavesTheContextAsItWas) {
  {
    AsioDriver driver(loop_, context_);
    loop_.poll();
  }
  loop_.restart();
  loop_.run_for(20ms);
  Pair pair = connect();
  EXPECT_TRUE(pair.client.open());
}

}  // namespace comm_test::asio_test
