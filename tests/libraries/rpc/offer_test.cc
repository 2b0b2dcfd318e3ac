// Large results and stream items, which stay in the memory of their sender until the receiver has read them:
// order, bounds of memory, cancellation, draining, and peers that break the rules.
#include <vector>

#include "lib/rpc/frame.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::offer_test {

using rrdma::comm::Endpoint;
using rrdma::comm::Profile;
namespace wire = rrdma::rpc::detail;

constexpr std::size_t kMiB = 1 << 20;

class Offers : public World {
 protected:
  explicit Offers(const ServerOptions& options = {}) : World(options) {}

  // Waits until nothing more than before is taken from the pool, for memory of both ends.
  void expect_given_back(std::size_t before) {
    EXPECT_TRUE(context_.run_until([&] { return context_.pool().in_use() <= before; }, Clock::now() + 5s))
        << context_.pool().in_use() - before << " bytes are still in use";
  }
};

// Small items, in frames, must not overtake large ones, which are offered.
TEST_F(Offers, ItemsOfAllSizesStayInOrder) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto talk = (co_await on.call<&Desk::talk>(kPatience)).value_or_throw();
    const std::array<std::size_t, 8> sizes = {3, 300000, 1, 5000, 4096, 70000, 0, kMiB};
    Scope writing;
    writing.spawn([](auto& to, const auto& all) -> Task<> {
      for (int round = 0; round < 5; ++round) {
        for (const std::size_t size : all) {
          Status sent = co_await to.write(std::string(size, static_cast<char>('a' + round)), kPatience);
          EXPECT_TRUE(sent.ok()) << sent.what();
        }
      }
    }(talk, sizes));
    for (int round = 0; round < 5; ++round) {
      for (const std::size_t size : sizes) {
        auto item = co_await talk.read(kPatience);
        EXPECT_TRUE(item && *item == std::string(size, static_cast<char>('a' + round)) + "!") << size;
      }
    }
    co_await writing.join();
    Status ended = co_await talk.finish(kPatience);
    EXPECT_TRUE(ended.ok()) << ended.what();
  }(channel));
}

TEST_F(Offers, ASlowReaderBoundsWhatIsOffered) {
  Channel channel = connect();
  const std::size_t before = context_.pool().in_use();
  run([](Context& context, Channel& on, Desk& desk) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{200, kMiB}, kPatience)).value_or_throw();
    static_cast<void>(co_await context.sleep(100ms));
    EXPECT_GE(desk.written, 2U);
    EXPECT_LE(desk.written, 10U);
    for (int i = 0; i < 200; ++i) {
      auto row = co_await rows.read(kPatience);
      EXPECT_TRUE(row && row->size() == kMiB && row->front() == static_cast<char>('a' + i % 26)) << i;
    }
    auto none = co_await rows.read(kPatience);
    EXPECT_FALSE(none.has_value());
    EXPECT_TRUE(rows.status().ok()) << rows.status().what();
  }(context_, channel, desk_));
  expect_given_back(before);
}

TEST_F(Offers, ACancelledStreamGivesItsMemoryBack) {
  Channel channel = connect();
  const std::size_t before = context_.pool().in_use();
  for (int items = 0; items < 4; ++items) {
    run([](Channel& on, int count) -> Task<> {
      auto rows = (co_await on.call<&Desk::count>(Range{1000, 300000}, kPatience)).value_or_throw();
      for (int i = 0; i < count; ++i) {
        auto row = co_await rows.read(kPatience);
        EXPECT_TRUE(row.has_value());
      }
    }(channel, items));
    settle();
    expect_given_back(before);
  }
  EXPECT_EQ(desk_.cancelled, 4U);
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

TEST_F(Offers, AHandlerThatReadsNothingGivesMemoryBack) {
  Channel channel = connect();
  const std::size_t before = context_.pool().in_use();
  run([](Context& context, Channel& on) -> Task<> {
    auto silent = (co_await on.call<&Desk::nothing_read>(kPatience)).value_or_throw();
    std::size_t written = 0;
    for (; written < 100; ++written) {
      Status sent = co_await silent.write(std::string(kMiB, 'x'), Limit(100ms));
      if (!sent.ok()) break;
    }
    EXPECT_GE(written, 2U);
    EXPECT_LE(written, 10U);
    static_cast<void>(co_await context.sleep(10ms));
  }(context_, channel));
  settle();
  expect_given_back(before);
}

// The client reads the items after the handler has ended.
TEST_F(Offers, DrainingWaitsUntilItemsWereRead) {
  Channel channel = connect();
  run([](Channel& on, Server& server) -> Task<> {
    auto rows = (co_await on.call<&Desk::count>(Range{3, kMiB}, kPatience)).value_or_throw();
    auto first = co_await rows.read(kPatience);
    EXPECT_TRUE(first.has_value());
    Scope draining;
    draining.spawn([](Server& one) -> Task<> {
      Status drained = co_await one.drain(kPatience);
      EXPECT_TRUE(drained.ok()) << drained.what();
    }(server));
    for (int i = 1; i < 3; ++i) {
      auto row = co_await rows.read(kPatience);
      EXPECT_TRUE(row && row->size() == kMiB) << rows.status().what();
    }
    co_await draining.join();
  }(channel, server_));
}

class OffersToLittle : public Offers {
 protected:
  static ServerOptions little() {
    ServerOptions options;
    options.connection_memory = kMiB;
    return options;
  }
  OffersToLittle() : Offers(little()) {}
};

TEST_F(OffersToLittle, ItemsWithinTheMemoryOfTheConnectionPass) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto talk = (co_await on.call<&Desk::talk>(kPatience)).value_or_throw();
    for (int i = 0; i < 20; ++i) {
      Status sent = co_await talk.write(std::string(700000, 'x'), kPatience);
      EXPECT_TRUE(sent.ok()) << sent.what();
      auto back = co_await talk.read(kPatience);
      EXPECT_TRUE(back && back->size() == 700001);
    }
  }(channel));
}

TEST_F(OffersToLittle, AnItemThatNeverFitsEndsItsStreamOnly) {
  Channel channel = connect();
  run([](Channel& on) -> Task<> {
    auto talk = (co_await on.call<&Desk::talk>(kPatience)).value_or_throw();
    static_cast<void>(co_await talk.write(std::string(2 * kMiB, 'x'), kPatience));
    auto none = co_await talk.read(kPatience);
    EXPECT_FALSE(none.has_value());
    EXPECT_EQ(talk.status().code(), Code::kResourceExhausted) << talk.status().what();
  }(channel));
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

// A bare endpoint that sends frames of its own.
class HostileOffers : public Offers {
 protected:
  Endpoint intrude(std::uint8_t version, std::uint32_t message_limit = wire::kFrameLimit) {
    wire::ClientHello hello;
    hello.highest = version;
    hello.max_result = kMiB;
    const auto octets = wire::emit(hello);
    Profile profile;
    profile.hello = octets;
    profile.message_limit = message_limit;
    return run([](Context& context, std::string to, const Profile& with) -> Task<Endpoint> {
      auto connected = co_await context.connect(to, with, kPatience);
      co_return std::move(connected).value_or_throw();
    }(context_, address(), profile));
  }
  void send(Endpoint& end, const wire::Frame& frame) {
    std::vector<std::byte> octets(wire::head_size(frame));
    wire::emit_head(frame, octets.data());
    octets.insert(octets.end(), frame.body.begin(), frame.body.end());
    run([](Endpoint& to, const std::vector<std::byte>& all) -> Task<> {
      static_cast<void>(co_await to.send(std::span<const std::byte>(all), kPatience));
    }(end, octets));
  }
  void expect_ended_by(std::uint8_t version, const wire::Frame& frame, const char* why) {
    Endpoint end = intrude(version);
    wire::Frame call;
    call.kind = wire::Kind::kCall;
    call.call = 1;
    call.method = MethodOf<&Desk::talk>::method().id;
    call.window = 1 << 20;
    send(end, call);
    send(end, frame);
    EXPECT_TRUE(context_.run_until([&] { return !end.open(); }, Clock::now() + kPatience)) << why;
    Channel other = connect();
    EXPECT_EQ(run(other.call<&Desk::add>({1, 2}, kPatience)).value(), 3U) << why;
  }
};

// The size of the largest message that brings two items of 3,900 bytes and one of 8,000.
using LargeFrames = HostileOffers;
TEST_F(LargeFrames, NeedTheVersionAndTheLimitOfTheirReceiver) {
  const auto largest = [this](std::uint8_t version, std::uint32_t message_limit) {
    Endpoint end = intrude(version, message_limit);
    std::size_t most = 0;
    for (const Range& range : {Range{2, 3900}, Range{1, 8000}}) {
      wire::Frame call;
      call.kind = wire::Kind::kCall;
      call.call = range.count;
      call.method = MethodOf<&Desk::count>::method().id;
      call.window = 1 << 20;
      call.body = std::as_bytes(std::span(&range, 1));
      send(end, call);
      for (std::size_t left = std::size_t{range.count} * range.size; left > 0;) {
        rrdma::comm::Message message = run([](Endpoint& from) -> Task<rrdma::comm::Message> {
          auto received = co_await from.receive(kPatience);
          co_return std::move(received).value_or_throw();
        }(end));
        most = std::max(most, message.size());
        left -= std::min(left, message.size());
      }
    }
    return most;
  };
  EXPECT_LE(largest(wire::kLargeFrameVersion - 1, wire::kLargeFrameLimit), wire::kFrameLimit);
  EXPECT_LE(largest(wire::kLargeFrameVersion, wire::kFrameLimit), wire::kFrameLimit);
  const std::size_t most = largest(wire::kLargeFrameVersion, wire::kLargeFrameLimit);
  EXPECT_GT(most, 8000U);
  EXPECT_LE(most, wire::kLargeFrameLimit);
}

TEST_F(HostileOffers, EndTheirConnection) {
  wire::Frame taken;
  taken.kind = wire::Kind::kTaken;
  taken.address = 0x1000;
  expect_ended_by(wire::kOfferingVersion, taken, "taken, and never offered");
  expect_ended_by(wire::kPackingVersion, taken, "a frame of a later version");
  wire::Frame item;
  item.kind = wire::Kind::kItem;
  item.flags = wire::flag::kOffered;
  item.call = 1;
  item.offered = {0x10000, 0x1234, 5000};
  expect_ended_by(wire::kPackingVersion, item, "an offer in an earlier version");
  expect_ended_by(wire::kOfferingVersion, item, "memory that is not open");
  item.offered.length = ~0U;
  expect_ended_by(wire::kOfferingVersion, item, "an item that is larger than the limit");
}

}  // namespace rpc_test::offer_test
