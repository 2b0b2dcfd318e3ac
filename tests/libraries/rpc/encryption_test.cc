// Encrypted connections: calls of all shapes, a relay in the network that reads and changes messages, and the
// demands of both ends.
#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <vector>

#include "lib/rpc/frame.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::encryption_test {

using rrdma::comm::Endpoint;
using rrdma::comm::Incoming;
using rrdma::comm::Listener;
using rrdma::comm::Profile;
namespace wire = rrdma::rpc::detail;
using Octets = std::vector<std::byte>;

constexpr const char* kSecret = "open sesame";
constexpr std::string_view kMarker = "the treasure lies under the third stone";

bool has_marker(const Octets& octets) {
  const std::string_view text(reinterpret_cast<const char*>(octets.data()), octets.size());
  return text.find(kMarker) != std::string_view::npos;
}

ServerOptions server_with(Encryption encryption) {
  ServerOptions options;
  options.secret = kSecret;
  options.encryption = encryption;
  return options;
}
ChannelOptions channel_with(Encryption encryption, const char* secret = kSecret) {
  ChannelOptions options;
  options.secret = secret;
  options.encryption = encryption;
  return options;
}

enum class Way : std::uint8_t { kUp, kDown };  // to the server, to the client
struct Passing {
  Way way;
  Octets octets;
};

// Somebody in the network between client and server.
class Relay {
 public:
  Relay(Context& context, std::string server)
      : context_(&context),
        server_(std::move(server)),
        listener_(context.listen(address_of(context) + ":0").value_or_throw()) {
    scope_.spawn(accept_all());
  }
  ~Relay() { change = {}; }
  [[nodiscard]] std::string address() const { return std::string(listener_.address()); }

  // Returns what is sent in place of a message, in either direction.
  std::function<std::vector<Passing>(const Passing&)> change;
  std::function<void(Octets&hello)> change_client_hello, change_server_hello;
  std::deque<Passing> seen;
  Octets client_hello;

 private:
  Task<> accept_all() {
    for (;;) {
      auto incoming = co_await listener_.next();
      if (!incoming) co_return;
      scope_.spawn(pass(std::move(*incoming)));
    }
  }
  Task<> pass(Incoming incoming) {
    client_hello.assign(incoming.hello().begin(), incoming.hello().end());
    Octets hello = client_hello;
    if (change_client_hello) change_client_hello(hello);
    Profile profile;
    profile.message_limit = wire::kFrameLimit + wire::kSealing;
    profile.hello = hello;
    auto up = co_await context_->connect(server_, profile, kPatience);
    if (!up) {
      incoming.refuse(static_cast<std::uint8_t>(up.error().detail()), "refused");
      co_return;
    }
    Octets answer(up->hello().begin(), up->hello().end());
    if (change_server_hello) change_server_hello(answer);
    profile.hello = answer;
    auto down = co_await incoming.accept(*context_, profile, kPatience);
    if (!down) co_return;
    co_await when_all(pump(*down, *up, Way::kUp), pump(*up, *down, Way::kDown));
  }
  Task<> pump(Endpoint& from, Endpoint& to, Way way) {
    for (;;) {
      auto message = co_await from.receive();
      if (!message) break;
      seen.push_back({way, Octets(message->bytes().begin(), message->bytes().end())});
      std::vector<Passing> sent{seen.back()};
      if (change) sent = change(seen.back());
      for (const Passing& one : sent) {
        Endpoint& target = one.way == way ? to : from;
        auto done = co_await target.send(std::span<const std::byte>(one.octets), kPatience);
        if (!done) break;
      }
    }
    to.abort();
  }

  Context* context_;
  std::string server_;
  Listener listener_;
  Scope scope_;
};

class Encrypted : public World {
 protected:
  explicit Encrypted(Encryption encryption = Encryption::kAlways)
      : World(server_with(encryption)), relay_(context_, address()) {}
  Result<Channel> open(ChannelOptions options, const std::string& to) {
    return run(rrdma::rpc::connect(context_, to, std::move(options), kPatience));
  }
  Channel open(Encryption encryption = Encryption::kAlways) {
    return open(channel_with(encryption), address()).value_or_throw();
  }
  Channel through_relay() {
    return open(channel_with(Encryption::kAlways), relay_.address()).value_or_throw();
  }
  Result<std::string> echo(Channel& channel, const std::string& text) {
    return run(channel.call<&Desk::echo>(text, kPatience));
  }
  // Changes the given message of this direction, counted from 0.
  void change_at(Way way, unsigned index, std::function<std::vector<Passing>(const Passing&)> how) {
    relay_.change = [way, index, how, count = 0U](const Passing& one) mutable {
      return one.way == way && count++ == index ? how(one) : std::vector<Passing>{one};
    };
  }
  Relay relay_;
};

TEST_F(Encrypted, CallsOfAllShapes) {
  Channel channel = open();
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
  for (const std::size_t size : {0U, 1U, 4000U, 4064U, 4072U, 4096U, 16384U, 100000U, 3000000U}) {
    const std::string text(size, 'x');
    EXPECT_EQ(echo(channel, text).value(), text) << size;
  }
  auto talk = [&]() -> Task<> {
    auto opened = co_await channel.call<&Desk::talk>(kPatience);
    auto stream = std::move(opened).value_or_throw();
    for (const std::size_t size : {5U, 4056U, 5000U, 70000U, 1000000U, 6U}) {
      const std::string text(size, 'y');
      Status sent = co_await stream.write(text);
      EXPECT_TRUE(sent.ok()) << sent.what();
      auto item = co_await stream.read();
      EXPECT_TRUE(item == text + "!") << size;
    }
    Status ended = co_await stream.finish();
    EXPECT_TRUE(ended.ok()) << ended.what();
  };
  run(talk());
  EXPECT_EQ(run(channel.call<&Desk::fail>(5, kPatience)).status().details(), "details");
}

// Many items in flight: their regions are read in any order.
TEST_F(Encrypted, StreamsOfLargeItems) {
  Channel channel = open();
  auto all = [&]() -> Task<> {
    auto opened = co_await channel.call<&Desk::count>({60, 100000}, kPatience);
    auto stream = std::move(opened).value_or_throw();
    for (unsigned i = 0; i < 60; ++i) {
      auto item = co_await stream.read();
      EXPECT_TRUE(item == std::string(100000, static_cast<char>('a' + i % 26))) << i;
    }
    Status ended = co_await stream.finish();
    EXPECT_TRUE(ended.ok()) << ended.what();
  };
  run(all());
}

TEST_F(Encrypted, BulkArgumentsAndResults) {
  Channel channel = open();
  auto bulk = Bulk<std::uint32_t>::of(context_, 300000).value_or_throw();
  std::iota(bulk.begin(), bulk.end(), 0U);
  EXPECT_EQ(run(channel.call<&Desk::weigh>(std::move(bulk), kPatience)).value(), 299999ULL * 300000 / 2);
  auto made = run(channel.call<&Desk::make>(200000, kPatience));
  ASSERT_TRUE(made.ok()) << made.status().what();
  EXPECT_EQ((*made)[199999], 199999U);
}

TEST_F(Encrypted, NothingIsReadableOnTheWay) {
  Channel channel = through_relay();
  EXPECT_EQ(echo(channel, std::string(kMarker)).value(), kMarker);
  EXPECT_GE(relay_.seen.size(), 3U);
  for (const Passing& one : relay_.seen) EXPECT_FALSE(has_marker(one.octets));
}

class Plain : public Encrypted {
 protected:
  Plain() : Encrypted(Encryption::kNever) {}
};

TEST_F(Plain, IsReadableOnTheWay) {
  Channel channel = open(channel_with(Encryption::kNever), relay_.address()).value_or_throw();
  EXPECT_EQ(echo(channel, std::string(kMarker)).value(), kMarker);
  EXPECT_TRUE(std::any_of(relay_.seen.begin(), relay_.seen.end(),
                          [](const Passing& one) { return has_marker(one.octets); }));
}

// ---- messages that are not as they were sent ----

TEST_F(Encrypted, AChangedMessageEndsTheConnection) {
  // Each byte belongs to the head, the contents or the tag.
  for (const std::size_t at : {0U, 1U, 3U, 8U, 20U, 60U}) {
    const std::uint64_t broken = server_.counters().broken;
    Channel channel = through_relay();
    change_at(Way::kUp, 0, [at](Passing one) {
      one.octets[std::min(at, one.octets.size() - 1)] ^= std::byte{1};
      return std::vector<Passing>{one};
    });
    EXPECT_FALSE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok()) << at;
    EXPECT_EQ(server_.counters().broken, broken + 1) << at;
    relay_.change = {};
  }
  EXPECT_EQ(desk_.calls, 0U);
}

TEST_F(Encrypted, AChangedAnswerIsNotBelieved) {
  Channel channel = through_relay();
  change_at(Way::kDown, 0, [](Passing one) {
    one.octets.back() ^= std::byte{0x80};
    return std::vector<Passing>{one};
  });
  const Status status = run(channel.call<&Desk::add>({1, 2}, kPatience)).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("forged"), std::string::npos) << status.what();
  EXPECT_FALSE(status.refused());
}

TEST_F(Encrypted, ARepeatedMessageEndsTheConnection) {
  Channel channel = through_relay();
  EXPECT_TRUE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok());
  change_at(Way::kUp, 0, [](const Passing& one) { return std::vector<Passing>{one, one}; });
  static_cast<void>(run(channel.call<&Desk::nap>(1000, kPatience)));
  EXPECT_EQ(server_.counters().broken, 1U);
  EXPECT_EQ(desk_.calls, 2U) << "the copy was not served";
}

TEST_F(Encrypted, AMissingMessageEndsTheConnection) {
  Channel channel = through_relay();
  change_at(Way::kUp, 0, [](const Passing&) { return std::vector<Passing>(); });
  EXPECT_FALSE(run(channel.call<&Desk::add>({1, 2}, 100ms)).ok());
  EXPECT_FALSE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok());
  EXPECT_EQ(server_.counters().broken, 1U);
  EXPECT_EQ(desk_.calls, 0U);
}

TEST_F(Encrypted, AReflectedMessageIsNotBelieved) {
  Channel channel = through_relay();
  EXPECT_TRUE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok());
  change_at(Way::kUp, 0, [](const Passing& one) { return std::vector<Passing>{{Way::kDown, one.octets}}; });
  const Status status = run(channel.call<&Desk::add>({1, 2}, kPatience)).status();
  EXPECT_NE(status.message().find("forged"), std::string::npos) << status.what();
}

// A message without encryption is no way in, neither before nor after the keys.
TEST_F(Encrypted, APlainMessageEndsTheConnection) {
  wire::Frame frame;
  frame.kind = wire::Kind::kCall;
  frame.method = MethodOf<&Desk::raise>::method().id;
  Octets plain(wire::head_size(frame));
  wire::emit_head(frame, plain.data());
  for (const bool first : {true, false}) {
    const std::uint64_t broken = server_.counters().broken;
    const auto replace = [plain](const Passing&) { return std::vector<Passing>{{Way::kUp, plain}}; };
    if (first) change_at(Way::kUp, 0, replace);
    Channel channel = through_relay();
    if (!first) change_at(Way::kUp, 0, replace);
    EXPECT_FALSE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok());
    EXPECT_EQ(server_.counters().broken, broken + 1);
    relay_.change = {};
  }
  EXPECT_EQ(server_.counters().calls, 0U);
}

// Somebody appends a call to the client's KEY. The server decrypts only whole messages, and would take the
// call for the client's.
TEST_F(Encrypted, ACallBehindTheKeyIsNotServed) {
  wire::Frame call;
  call.kind = wire::Kind::kCall;
  call.method = MethodOf<&Desk::raise>::method().id;
  const auto octets_of = [](const wire::Frame& frame) {
    Octets octets(wire::head_size(frame));
    wire::emit_head(frame, octets.data());
    return octets;
  };
  change_at(Way::kUp, 0, [&](const Passing& key) {
    wire::Frame pack;
    pack.kind = wire::Kind::kPack;
    Octets octets = octets_of(pack);
    for (const Octets& frame : {key.octets, octets_of(call)}) {
      octets.resize(octets.size() + wire::kPackedHead);
      wire::emit_packed_head(frame.size(), octets.data() + octets.size() - wire::kPackedHead);
      octets.insert(octets.end(), frame.begin(), frame.end());
    }
    return std::vector<Passing>{{Way::kUp, octets}};
  });
  Channel channel = through_relay();
  EXPECT_FALSE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok());
  EXPECT_EQ(server_.counters().broken, 1U);
  EXPECT_EQ(server_.counters().calls, 0U);
}

// Everything that a client once sent gives nobody a connection.
TEST_F(Encrypted, ARecordedConnectionIsOfNoUse) {
  Channel channel = through_relay();
  EXPECT_TRUE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok());
  Profile profile;
  profile.hello = relay_.client_hello;
  profile.message_limit = wire::kFrameLimit + wire::kSealing;
  auto connecting = context_.connect(address(), profile, kPatience);
  connecting.start();
  EXPECT_TRUE(context_.run_until([&] { return connecting.done(); }, Clock::now() + kPatience));
  auto end = connecting.await_resume().value_or_throw();
  for (const Passing& one : relay_.seen) {
    if (one.way != Way::kUp) continue;
    auto sending = end.send(std::span<const std::byte>(one.octets), kPatience);
    sending.start();
  }
  EXPECT_TRUE(context_.run_until([&] { return !end.open(); }, Clock::now() + kPatience));
  EXPECT_EQ(server_.counters().broken, 1U);
  EXPECT_EQ(desk_.calls, 1U);
}

// ---- the key exchange ----

TEST_F(Encrypted, AWrongSecret) {
  const Status status = open(channel_with(Encryption::kAlways, "open wheat"), address()).status();
  EXPECT_EQ(status.code(), Code::kUnauthenticated) << status.what();
  // A client that does not check the server's proof: the server refuses its KEY.
  wire::ClientHello hello;
  hello.highest = wire::kProtocolVersion;
  hello.secret = true;
  hello.encryption = wire::kMustEncrypt;
  const auto octets = wire::emit(hello);
  Profile profile;
  profile.hello = octets;
  profile.message_limit = wire::kFrameLimit + wire::kSealing;
  auto connecting = context_.connect(address(), profile, kPatience);
  connecting.start();
  EXPECT_TRUE(context_.run_until([&] { return connecting.done(); }, Clock::now() + kPatience));
  auto end = connecting.await_resume().value_or_throw();
  Octets key(8 + wire::kKeyBody, std::byte{9});
  wire::Frame frame;
  frame.kind = wire::Kind::kKey;
  wire::emit_head(frame, key.data());
  auto sending = end.send(std::span<const std::byte>(key), kPatience);
  sending.start();
  EXPECT_TRUE(context_.run_until([&] { return !end.open(); }, Clock::now() + kPatience));
  EXPECT_EQ(server_.counters().broken, 1U);
}

// Each byte of both hellos is under the proofs.
TEST_F(Encrypted, AChangedHelloIsNoticed) {
  for (std::size_t at = 4; at < wire::kClientHelloSize; ++at) {
    relay_.change_client_hello = [at](Octets& hello) { hello[at] ^= std::byte{4}; };
    auto opened = open(channel_with(Encryption::kAlways), relay_.address());
    EXPECT_FALSE(opened.ok()) << at;
  }
  relay_.change_client_hello = {};
  for (std::size_t at = 4; at < wire::kEncryptedHelloSize; ++at) {
    relay_.change_server_hello = [at](Octets& hello) { hello[at] ^= std::byte{1}; };
    auto opened = open(channel_with(Encryption::kAlways), relay_.address());
    EXPECT_FALSE(opened.ok()) << at;
  }
  EXPECT_EQ(server_.counters().calls, 0U);
}

// A relay that answers in the server's place, with a key of its own.
TEST_F(Encrypted, AnotherKeyIsNotBelieved) {
  relay_.change_server_hello = [](Octets& hello) {
    std::fill_n(hello.begin() + wire::kServerHelloSize, wire::kKeySize, std::byte{9});
  };
  EXPECT_EQ(open(channel_with(Encryption::kAlways), relay_.address()).status().code(),
            Code::kUnauthenticated);
}

class Willing : public Encrypted {
 protected:
  Willing() : Encrypted(Encryption::kOtherHosts) {}
};

// The relay removes what the client says about encryption. The server would do without.
TEST_F(Willing, ADowngradeIsRefused) {
  for (const std::size_t at : {5U, 12U}) {  // the highest version, the demand
    relay_.change_client_hello = [at](Octets& hello) {
      hello[at] = std::byte{at == 5 ? std::byte{3} : std::byte{0}};
    };
    const Status status = open(channel_with(Encryption::kAlways), relay_.address()).status();
    EXPECT_EQ(status.code(), Code::kUnauthenticated) << status.what();
    EXPECT_NE(status.message().find("does not encrypt"), std::string::npos) << status.what();
  }
  // The server has agreed, and the relay removes that.
  relay_.change_client_hello = {};
  relay_.change_server_hello = [](Octets& hello) { hello.resize(wire::kServerHelloSize); };
  EXPECT_EQ(open(channel_with(Encryption::kAlways), relay_.address()).status().code(),
            Code::kUnauthenticated);
}

// ---- what the ends demand ----

TEST_F(Willing, TheClientDecidesOnOneHost) {
  Channel plain = open(channel_with(Encryption::kOtherHosts), relay_.address()).value_or_throw();
  EXPECT_TRUE(echo(plain, std::string(kMarker)).ok());
  EXPECT_TRUE(std::any_of(relay_.seen.begin(), relay_.seen.end(),
                          [](const Passing& one) { return has_marker(one.octets); }));
  relay_.seen.clear();
  Channel encrypted = through_relay();
  EXPECT_TRUE(echo(encrypted, std::string(kMarker)).ok());
  EXPECT_FALSE(std::any_of(relay_.seen.begin(), relay_.seen.end(),
                           [](const Passing& one) { return has_marker(one.octets); }));
}

TEST_F(Encrypted, AWillingClientFollowsTheServer) {
  Channel channel = open(channel_with(Encryption::kOtherHosts), relay_.address()).value_or_throw();
  EXPECT_TRUE(echo(channel, std::string(kMarker)).ok());
  for (const Passing& one : relay_.seen) EXPECT_FALSE(has_marker(one.octets));
}

TEST_F(Encrypted, AClientThatNeverEncryptsIsRefused) {
  const Status status = open(channel_with(Encryption::kNever), address()).status();
  EXPECT_EQ(status.code(), Code::kUnauthenticated);
  EXPECT_NE(status.message().find("this server encrypts"), std::string::npos) << status.what();
}

TEST_F(Plain, AClientThatDemandsItIsRefused) {
  const Status status = open(channel_with(Encryption::kAlways), address()).status();
  EXPECT_EQ(status.code(), Code::kUnauthenticated);
  EXPECT_NE(status.message().find("does not encrypt"), std::string::npos) << status.what();
}

TEST_F(Plain, EncryptionNeedsASecret) {
  const Status status = open(channel_with(Encryption::kAlways, ""), address()).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("needs a secret"), std::string::npos) << status.what();
  ServerOptions options;
  options.encryption = Encryption::kAlways;
  Server server(context_, options);
  EXPECT_EQ(server.listen(address_of(context_) + ":0").code(), Code::kFailedPrecondition);
}

TEST_F(Encrypted, ADrainAnswersWhatRuns) {
  Channel channel = open();
  auto napping = [&]() -> Task<> {
    auto napped = co_await channel.call<&Desk::nap>(100, kPatience);
    EXPECT_EQ(napped.value_or_throw(), 100U);
  };
  auto draining = [&]() -> Task<> {
    while (server_.calls() == 0) static_cast<void>(co_await context_.sleep(1ms));
    Status drained = co_await server_.drain(kPatience);
    EXPECT_TRUE(drained.ok()) << drained.what();
  };
  run(when_all(napping(), draining()));
}

}  // namespace rpc_test::encryption_test
