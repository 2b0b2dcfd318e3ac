// Batches: several operations, one doorbell, in order; fences and flushes.
#include <cstring>

#include "tests/libraries/comm/world.h"

namespace comm_test::batch_test {

class Batches : public World {};

TEST_F(Batches, InOrderAndAllResults) {
  Pair pair = connect();
  Buffer target = take(8);
  auto opened = share(context_, target, Access::kRead | Access::kWrite).value_or_throw();
  run([](Pair& p, RemoteSpan<std::byte> remote, Buffer a, Buffer b, Buffer& far) -> Task<> {
    std::memset(a.data(), 7, a.size());
    auto [written, sent, read] =
        co_await batch(p.client.write(std::move(a), remote), p.client.send("it is there"),
                       p.client.read(remote, std::move(b)).fenced());
    EXPECT_TRUE(written.ok() && sent.ok() && read.ok());
    EXPECT_EQ(read->data()[7], std::byte{7});
    Message message = (co_await p.server.receive(kPatience)).value_or_throw();
    EXPECT_EQ(message.text(), "it is there");
    EXPECT_EQ(far.data()[0], std::byte{7}) << "the write comes before the message";
  }(pair, opened.remote(), take(8), take(8), target));
}

TEST_F(Batches, OneOfThemFails) {
  Profile small;
  small.message_limit = 10;
  Pair pair = connect({}, small);
  run([](Pair& p) -> Task<> {
    const std::string large(11, 'x');
    auto [a, b, c] = co_await batch(p.client.send("one"), p.client.send(large), p.client.send("two"));
    EXPECT_TRUE(a.ok());
    EXPECT_EQ(b.error().code(), Code::kTooLarge);
    EXPECT_TRUE(c.ok());
    EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().text(), "one");
    EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().text(), "two");
  }(pair));
}

TEST_F(Batches, FlushWaitsForTheAcknowledgement) {
  Pair pair = connect();
  run([](Pair& p) -> Task<> {
    for (unsigned i = 0; i < 30; ++i) (co_await p.client.send(i, kPatience)).value_or_throw();
    (co_await p.client.flush(kPatience)).value_or_throw();
    for (unsigned i = 0; i < 30; ++i)
      EXPECT_EQ((co_await p.server.receive(kPatience)).value_or_throw().as<unsigned>(), i);
  }(pair));
}

}  // namespace comm_test::batch_test
