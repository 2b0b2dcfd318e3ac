// Memory that an encrypted connection offers, and that somebody changes before it is READ; and frames that
// are repeated, cut or moved. One end of each connection is this file's own: it knows the secret, so that
// everything is right except for what the test changes.
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/rpc/frame.h"
#include "lib/rpc/handshake.h"
#include "lib/rpc/sealing.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::tampered_test {

using rrdma::comm::Access;
using rrdma::comm::Buffer;
using rrdma::comm::Endpoint;
using rrdma::comm::Profile;
using rrdma::comm::Share;
namespace wire = rrdma::rpc::detail;
using Octets = std::vector<std::byte>;

constexpr const char* kSecret = "open sesame";
constexpr std::size_t kSize = 20000;  // too large for a frame

ServerOptions encrypted() {
  ServerOptions options;
  options.secret = kSecret;
  options.encryption = Encryption::kAlways;
  return options;
}

Octets octets_of(const wire::Frame& frame, std::span<const std::byte> body = {}) {
  Octets octets(wire::head_size(frame));
  wire::emit_head(frame, octets.data());
  octets.insert(octets.end(), body.begin(), body.end());
  return octets;
}

// One end of an encrypted connection.
class Sealer {
 public:
  Sealer(Context& context, Endpoint endpoint, const wire::SealKeys& keys)
      : context_(&context),
        endpoint_(std::move(endpoint)),
        frames_out_(keys.frames_out),
        frames_in_(keys.frames_in),
        offers_out_(keys.offers_out) {}

  Endpoint& endpoint() { return endpoint_; }
  // The message in its sealed form, which counts as sent.
  Octets sealed(const Octets& plain) {
    Octets octets = head();
    octets.resize(octets.size() + plain.size() + wire::kSealTag);
    frames_out_.seal(sent_++, head(), plain, octets.data() + wire::kSealHead);
    return octets;
  }
  void send_as_it_is(const Octets& octets) {
    auto sending = endpoint_.send(std::span<const std::byte>(octets), kPatience);
    sending.start();
    context_->run_until([&] { return sending.done(); }, Clock::now() + kPatience);
  }
  void send(const Octets& plain) { send_as_it_is(sealed(plain)); }

  // Memory of this end that the peer may READ, encrypted with the next number.
  wire::Region offer(std::size_t size) {
    const std::string text(size, 'o');
    Buffer memory = context_->pool().take(size + wire::kSealTag).value_or_throw();
    offers_out_.seal(offers_, {}, std::as_bytes(std::span<const char>(text)), memory.data());
    shares_.push_back(rrdma::comm::share(*context_, memory, Access::kRead).value_or_throw());
    const auto remote = shares_.back().remote();
    memory_.push_back(std::move(memory));
    return {remote.address(), remote.key(), static_cast<std::uint32_t>(remote.size()), offers_++};
  }
  // The bytes of the offer with this number.
  std::span<std::byte> offered(std::uint64_t number) { return memory_[number].bytes(); }

  // The next frame of the peer; nothing if the connection ends.
  std::optional<wire::Frame> receive() {
    message_ = {};
    context_->run_until(
        [&] {
          if (!message_) message_ = endpoint_.try_receive();
          return message_ || !endpoint_.open();
        },
        Clock::now() + kPatience);
    if (!message_) return std::nullopt;
    const auto octets = message_.bytes();
    EXPECT_TRUE(frames_in_.open(received_++, head(), octets.subspan(wire::kSealHead)));
    auto frame = wire::parse_frame(octets.subspan(wire::kSealHead, octets.size() - wire::kSealing));
    if (frame && frame->kind == wire::Kind::kPack) {
      auto rest = frame->body;
      frame = wire::parse_frame(wire::next_packed(rest));
    }
    return frame;
  }

 private:
  static Octets head() {
    wire::Frame frame;
    frame.kind = wire::Kind::kSealed;
    return octets_of(frame);
  }

  Context* context_;
  Endpoint endpoint_;
  wire::SealKey frames_out_, frames_in_, offers_out_;
  std::uint64_t sent_ = 0, received_ = 0, offers_ = 0;
  rrdma::comm::Message message_;
  std::vector<Buffer> memory_;
  std::vector<Share<std::byte>> shares_;
};

wire::Frame call_of(const Method& method, std::uint32_t id) {
  wire::Frame frame;
  frame.kind = wire::Kind::kCall;
  frame.call = id;
  frame.method = method.id;
  frame.schema = method.schema;
  return frame;
}
void mark(wire::Frame& frame, const wire::Region& region) {
  frame.flags |= wire::flag::kOffered | wire::flag::kSealed;
  frame.offered = region;
}

// How memory differs from what was offered. REQUIRES: two offers of the same size, the second one is taken.
struct Change {
  const char* what;
  std::function<void(Sealer&, wire::Region&)> make;
};
std::vector<Change> changes() {
  const auto flip = [](std::size_t from_end) {
    return [from_end](Sealer& end, wire::Region&) {
      const auto octets = end.offered(1);
      octets[octets.size() - 1 - from_end] ^= std::byte{1};
    };
  };
  return {
      {"the last byte of the tag", flip(0)},
      {"the first byte of the tag", flip(wire::kSealTag - 1)},
      {"the last byte", flip(wire::kSealTag)},
      {"the first byte", flip(kSize + wire::kSealTag - 1)},
      {"the bytes of an earlier offer",
       [](Sealer& end, wire::Region&) {
         std::copy_n(end.offered(0).begin(), end.offered(0).size(), end.offered(1).begin());
       }},
      {"the number of another offer", [](Sealer&, wire::Region& region) { region.seal = 0; }},
      {"a number that was never used", [](Sealer&, wire::Region& region) { region.seal = 99; }},
      {"cut by one byte", [](Sealer&, wire::Region& region) { --region.length; }},
      {"cut to its tag", [](Sealer&, wire::Region& region) { region.length = wire::kSealTag + 1; }},
      {"moved by one byte",
       [](Sealer&, wire::Region& region) {
         ++region.address;
         --region.length;
       }},
      {"plain bytes",
       [](Sealer& end, wire::Region&) {
         std::fill(end.offered(1).begin(), end.offered(1).end(), std::byte{'o'});
       }},
  };
}

// ---- the server READs ----

class TamperedToServer : public World {
 protected:
  TamperedToServer() : World(encrypted()) {}
  std::unique_ptr<Sealer> intrude() {
    wire::ClientHello hello;
    hello.highest = wire::kProtocolVersion;
    hello.max_result = 1 << 20;
    hello.secret = true;
    hello.encryption = wire::kMustEncrypt;
    hello.nonce.fill(std::byte{5});
    const auto said = wire::emit(hello);
    Profile profile;
    profile.hello = said;
    profile.message_limit = wire::kFrameLimit + wire::kSealing;
    auto connecting = context_.connect(address(), profile, kPatience);
    connecting.start();
    EXPECT_TRUE(context_.run_until([&] { return connecting.done(); }, Clock::now() + kPatience));
    Endpoint end = connecting.await_resume().value_or_throw();
    const Octets answer(end.hello().begin(), end.hello().end());
    wire::Handshake handshake(wire::Role::kClient, kSecret);
    EXPECT_TRUE(handshake.check_server(said, answer));
    const auto keys = handshake.client_keys(wire::parse_server_hello(answer)->key);
    wire::Frame key;
    key.kind = wire::Kind::kKey;
    auto sealer = std::make_unique<Sealer>(context_, std::move(end), *keys);
    sealer->send_as_it_is(octets_of(key, handshake.client_body()));
    return sealer;
  }
  void expect_ended(Sealer& end, const char* why) {
    EXPECT_TRUE(context_.run_until([&] { return !end.endpoint().open(); }, Clock::now() + kPatience)) << why;
    EXPECT_EQ(server_.counters().broken, ++broken_) << why;
  }
  std::uint64_t broken_ = 0;
};

TEST_F(TamperedToServer, AnOfferedArgument) {
  {
    const auto intruder = intrude();
    Sealer& end = *intruder;
    wire::Frame call = call_of(MethodOf<&Desk::echo>::method(), 1);
    mark(call, end.offer(kSize));
    end.send(octets_of(call));
    const auto reply = end.receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 0) << "unchanged, to compare";
    EXPECT_TRUE(reply->has(wire::flag::kOffered));
  }
  const unsigned calls = desk_.calls;
  EXPECT_EQ(calls, 1U);
  for (const Change& change : changes()) {
    const auto intruder = intrude();
    Sealer& end = *intruder;
    static_cast<void>(end.offer(kSize));
    wire::Frame call = call_of(MethodOf<&Desk::echo>::method(), 1);
    wire::Region region = end.offer(kSize);
    change.make(end, region);
    mark(call, region);
    end.send(octets_of(call));
    expect_ended(end, change.what);
    if (HasFailure()) return;  // the others would wait as long
  }
  EXPECT_EQ(desk_.calls, calls) << "no handler got anything";
}

TEST_F(TamperedToServer, AnOfferedItem) {
  const auto talk = [](Sealer& end, const wire::Region& region) {
    wire::Frame call = call_of(MethodOf<&Desk::talk>::method(), 1);
    call.window = 1 << 16;
    end.send(octets_of(call));
    wire::Frame item;
    item.kind = wire::Kind::kItem;
    item.call = 1;
    mark(item, region);
    end.send(octets_of(item));
  };
  {
    const auto intruder = intrude();
    Sealer& end = *intruder;
    talk(end, end.offer(kSize));
    bool item = false, taken = false;
    while (!item || !taken) {
      const auto frame = end.receive();
      ASSERT_TRUE(frame) << "unchanged, to compare";
      item |= frame->kind == wire::Kind::kItem;
      taken |= frame->kind == wire::Kind::kTaken;
    }
  }
  for (const Change& change : changes()) {
    const auto intruder = intrude();
    Sealer& end = *intruder;
    static_cast<void>(end.offer(kSize));
    wire::Region region = end.offer(kSize);
    change.make(end, region);
    talk(end, region);
    ASSERT_TRUE(context_.run_until([&] { return !end.endpoint().open(); }, Clock::now() + kPatience))
        << change.what;
  }
}

// ---- frames ----

TEST_F(TamperedToServer, Frames) {
  const Pair pair{1, 2};
  const auto body = std::as_bytes(std::span<const Pair>(&pair, 1));
  const auto call = [&](std::uint32_t id) {
    return octets_of(call_of(MethodOf<&Desk::add>::method(), id), body);
  };
  const auto with = [&](const char* why, const std::function<void(Sealer&)>& act, unsigned served) {
    if (HasFailure()) return;
    const unsigned calls = desk_.calls;
    const auto intruder = intrude();
    Sealer& end = *intruder;
    act(end);
    expect_ended(end, why);
    EXPECT_EQ(desk_.calls, calls + served) << why;
  };
  with(
      "repeated",
      [&](Sealer& end) {
        const Octets octets = end.sealed(call(1));
        end.send_as_it_is(octets);
        end.send_as_it_is(octets);
      },
      1);
  with(
      "repeated later",
      [&](Sealer& end) {
        const Octets octets = end.sealed(call(1));
        end.send_as_it_is(octets);
        end.send(call(2));
        end.send_as_it_is(octets);
      },
      2);
  for (const std::size_t less : {std::size_t{1}, wire::kSealTag, wire::kSealTag + 1, std::size_t{20}}) {
    with(
        "cut",
        [&](Sealer& end) {
          Octets octets = end.sealed(call(1));
          octets.resize(octets.size() - less);
          end.send_as_it_is(octets);
        },
        0);
  }
  with(
      "longer by a byte",
      [&](Sealer& end) {
        Octets octets = end.sealed(call(1));
        octets.push_back(std::byte{0});
        end.send_as_it_is(octets);
      },
      0);
  with(
      "in another order",
      [&](Sealer& end) {
        const Octets first = end.sealed(call(1));
        end.send(call(2));
        end.send_as_it_is(first);
      },
      0);
  // An offer that is not marked as encrypted.
  with(
      "an offer of plain memory",
      [&](Sealer& end) {
        wire::Frame plain = call_of(MethodOf<&Desk::echo>::method(), 1);
        plain.flags = wire::flag::kOffered;
        plain.offered = end.offer(kSize);
        end.send(octets_of(plain));
      },
      0);
}

// ---- the client READs ----

class TamperedToClient : public World {
 protected:
  TamperedToClient() : World(encrypted()) {}
  // A server of this file, and a channel to it.
  struct Both {
    std::optional<Channel> channel;
    std::unique_ptr<Sealer> server;
  };
  Both connect_to_own() {
    auto listener = context_.listen(address_of(context_) + ":0").value_or_throw();
    ChannelOptions options;
    options.secret = kSecret;
    options.encryption = Encryption::kAlways;
    Both both;
    const auto accept = [this, &listener, &both]() -> Task<> {
      auto next = co_await listener.next();
      auto incoming = std::move(next).value_or_throw();
      const Octets said(incoming.hello().begin(), incoming.hello().end());
      wire::ServerHello answer;
      answer.version = wire::kProtocolVersion;
      answer.max_calls = 16;
      answer.max_argument = 1 << 20;
      answer.window = 1 << 16;
      answer.secret = true;
      wire::Handshake handshake(wire::Role::kServer, kSecret);
      answer.key = handshake.key();
      answer.proof = handshake.prove_server(said, wire::emit(answer));
      const auto octets = wire::emit(answer);
      Profile profile;
      profile.hello = octets;
      profile.message_limit = wire::kFrameLimit + wire::kSealing;
      auto accepted = co_await incoming.accept(context_, profile, kPatience);
      Endpoint end = std::move(accepted).value_or_throw();
      auto first = co_await end.receive(kPatience);
      const auto frame = wire::parse_frame(first.value_or_throw().bytes());
      const auto keys = handshake.server_keys(frame->body);
      both.server = std::make_unique<Sealer>(context_, std::move(end), *keys);
    };
    auto [connected, none] = run(
        when_all(rrdma::rpc::connect(context_, listener.address(), std::move(options), kPatience), accept()));
    both.channel.emplace(std::move(connected).value_or_throw());
    return both;
  }
};

TEST_F(TamperedToClient, AnOfferedResult) {
  const auto result_of = [this](const Change* change) {
    Both both = connect_to_own();
    auto calling = both.channel->call<&Desk::echo>("x", kPatience);
    calling.start(std::noop_coroutine());
    const auto call = both.server->receive();
    wire::Frame reply;
    reply.kind = wire::Kind::kReply;
    reply.call = call->call;
    static_cast<void>(both.server->offer(kSize));
    wire::Region region = both.server->offer(kSize);
    if (change != nullptr) change->make(*both.server, region);
    mark(reply, region);
    both.server->send(octets_of(reply));
    EXPECT_TRUE(context_.run_until([&] { return calling.done(); }, Clock::now() + kPatience));
    return calling.take();
  };
  EXPECT_EQ(result_of(nullptr).value(), std::string(kSize, 'o')) << "unchanged, to compare";
  for (const Change& change : changes()) {
    const Status status = result_of(&change).status();
    EXPECT_EQ(status.code(), Code::kUnavailable) << change.what;
    EXPECT_NE(status.message().find("forged"), std::string::npos) << change.what << ": " << status.what();
    EXPECT_FALSE(status.refused()) << change.what;
  }
}

TEST_F(TamperedToClient, AnOfferedItem) {
  const auto read = [this](const Change* change) {
    Both both = connect_to_own();
    auto reading = [](Channel on) -> Task<Result<std::string>> {
      auto opened = co_await on.call<&Desk::count>(Range{1, kSize}, kPatience);
      auto stream = std::move(opened).value_or_throw();
      auto item = co_await stream.read(kPatience);
      if (item) co_return std::move(*item);
      co_return stream.status();
    }(*both.channel);
    reading.start(std::noop_coroutine());
    const auto call = both.server->receive();
    wire::Frame item;
    item.kind = wire::Kind::kItem;
    item.call = call->call;
    static_cast<void>(both.server->offer(kSize));
    wire::Region region = both.server->offer(kSize);
    if (change != nullptr) change->make(*both.server, region);
    mark(item, region);
    both.server->send(octets_of(item));
    EXPECT_TRUE(context_.run_until([&] { return reading.done(); }, Clock::now() + kPatience));
    return reading.take();
  };
  EXPECT_EQ(read(nullptr).value(), std::string(kSize, 'o')) << "unchanged, to compare";
  for (const Change& change : changes()) {
    const Status status = read(&change).status();
    EXPECT_FALSE(status.ok()) << change.what << ": a stream that was cut looks complete";
  }
}

}  // namespace rpc_test::tampered_test
