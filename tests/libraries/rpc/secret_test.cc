// The shared secret: an end that does not know it is refused, on both sides; and the server's check before a
// handler.
#include <algorithm>
#include <vector>

#include "lib/rpc/frame.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::secret_test {

class Secrets : public World {
 protected:
  static ServerOptions guarded() {
    ServerOptions options;
    options.secret = "open sesame";
    return options;
  }
  explicit Secrets(const ServerOptions& options = guarded()) : World(options) {}
  Result<Channel> try_with(std::string secret) {
    ChannelOptions options;
    options.secret = std::move(secret);
    return run(rrdma::rpc::connect(context_, address(), options, kPatience));
  }
};

TEST_F(Secrets, WhoKnowsItIsLetIn) {
  Channel channel = try_with("open sesame").value_or_throw();
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

TEST_F(Secrets, WhoDoesNotIsRefused) {
  EXPECT_EQ(try_with("").status().code(), Code::kUnauthenticated) << try_with("").status().what();
  EXPECT_EQ(try_with("open wheat").status().code(), Code::kUnauthenticated);
  EXPECT_EQ(desk_.calls, 0U);
}

// A client that omits the proof, or sends a wrong one, cannot make a call.
TEST_F(Secrets, WhoSkipsTheProofIsNotHeard) {
  namespace wire = rrdma::rpc::detail;
  for (const bool wrong : {false, true}) {
    wire::ClientHello hello;
    hello.secret = true;
    const auto octets = wire::emit(hello);
    rrdma::comm::Profile profile;
    profile.hello = octets;
    auto connecting = context_.connect(address(), profile, kPatience);
    connecting.start();
    EXPECT_TRUE(context_.run_until([&] { return connecting.done(); }, Clock::now() + kPatience));
    auto end = connecting.await_resume().value_or_throw();
    wire::Frame frame;
    frame.kind = wrong ? wire::Kind::kProof : wire::Kind::kCall;
    frame.method = wrong ? 0 : MethodOf<&Desk::raise>::method().id;
    std::vector<std::byte> sent(wire::head_size(frame) + (wrong ? wire::kProofSize : 0));
    wire::emit_head(frame, sent.data());
    auto sending = end.send(std::span<const std::byte>(sent), kPatience);
    sending.start();
    EXPECT_TRUE(context_.run_until([&] { return !end.open(); }, Clock::now() + kPatience));
  }
  EXPECT_EQ(server_.counters().broken, 2U);
  EXPECT_EQ(server_.counters().calls, 0U);
}

class FewUnproven : public Secrets {
 protected:
  static ServerOptions few() {
    ServerOptions options = guarded();
    options.max_unproven = 4;
    return options;
  }
  FewUnproven() : Secrets(few()) {}
};

// Strangers connect and send no proof. The server keeps a few of them, and admits a client that knows the
// secret.
TEST_F(FewUnproven, StrangersThatSayNothingAreBounded) {
  rrdma::rpc::detail::ClientHello hello;
  hello.secret = true;
  const auto octets = rrdma::rpc::detail::emit(hello);
  rrdma::comm::Profile profile;
  profile.hello = octets;
  std::vector<rrdma::comm::Endpoint> strangers;
  for (int i = 0; i < 20; ++i) {
    auto connecting = context_.connect(address(), profile, kPatience);
    connecting.start();
    EXPECT_TRUE(context_.run_until([&] { return connecting.done(); }, Clock::now() + kPatience));
    if (auto end = connecting.await_resume()) strangers.push_back(std::move(*end));
  }
  const auto open = [&] {
    return std::count_if(strangers.begin(), strangers.end(), [](const auto& end) { return end.open(); });
  };
  EXPECT_TRUE(context_.run_until([&] { return open() <= 4; }, Clock::now() + 5s)) << open();
  Channel channel = try_with("open sesame").value_or_throw();
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

class NoSecret : public World {};

TEST_F(NoSecret, AServerThatCannotProveItIsNotTrusted) {
  ChannelOptions options;
  options.secret = "open sesame";
  auto connected = run(rrdma::rpc::connect(context_, address(), options, kPatience));
  EXPECT_EQ(connected.status().code(), Code::kUnauthenticated);
}

class Gates : public World {
 protected:
  static ServerOptions gated() {
    ServerOptions options;
    options.before = [](Call& call) {
      if (call.metadata().find("who") == "nobody") return Status(Code::kPermissionDenied, "not you");
      call.trailers().add("seen", std::string(call.peer()));
      return Status();
    };
    return options;
  }
  Gates() : World(gated()) {}
};

TEST_F(Gates, AreAskedBeforeTheHandler) {
  Channel channel = connect();
  Metadata trailers;
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, CallOptions(kPatience).trailers_into(trailers))).value(),
            3U);
  EXPECT_TRUE(trailers.find("seen").has_value());
  const Status refused =
      run(channel.call<&Desk::add>({1, 2}, CallOptions(kPatience).with("who", "nobody"))).status();
  EXPECT_EQ(refused.code(), Code::kPermissionDenied);
  EXPECT_EQ(desk_.calls, 1U);
}

}  // namespace rpc_test::secret_test
