// Metadata that a server sends before its results.
#include "tests/libraries/rpc/world.h"

namespace rpc_test::headers_test {

struct Crier {
  Result<std::uint32_t> quick(Call& call) {
    call.headers().add("mood", "brisk");
    call.trailers().add("end", "soon");
    return 7U;
  }
  Result<std::uint32_t> fails(Call& call) {
    call.headers().add("mood", "sour");
    return {Code::kNotFound, "no"};
  }
  // Sends the headers first, and items only after the caller has sent one.
  Task<Status> slow(Call& call, Reader<std::uint32_t>& in, Writer<std::uint32_t>& out) {
    call.headers().add("mood", "slow");
    Status sent = call.send_headers();
    if (!sent.ok()) co_return sent;
    again = call.send_headers();
    auto item = co_await in.read();
    if (item) static_cast<void>(co_await out.write(*item));
    co_return Status();
  }
  Result<std::uint32_t> too_many(Call& call) {
    call.headers().add("much", std::string(3000, 'x'));
    return call.send_headers();
  }
  Status again;
};

class Headers : public World {
 protected:
  Headers() {
    server_.add<&Crier::quick>(crier_);
    server_.add<&Crier::fails>(crier_);
    server_.add<&Crier::slow>(crier_);
    server_.add<&Crier::too_many>(crier_);
  }
  Crier crier_;
};

TEST_F(Headers, ComeWithTheResult) {
  Channel channel = connect();
  Metadata headers;
  Metadata trailers;
  for (int i = 0; i < 3; ++i) {
    auto result = run(
        channel.call<&Crier::quick>(CallOptions(kPatience).headers_into(headers).trailers_into(trailers)));
    EXPECT_EQ(result.value(), 7U);
    EXPECT_EQ(headers, Metadata().add("mood", "brisk"));
    EXPECT_EQ(trailers, Metadata().add("end", "soon"));
  }
  EXPECT_EQ(run(channel.call<&Crier::fails>(CallOptions(kPatience).headers_into(headers))).status().code(),
            Code::kNotFound);
  EXPECT_EQ(headers, Metadata().add("mood", "sour"));
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, CallOptions(kPatience).headers_into(headers))).value(), 3U);
  EXPECT_TRUE(headers.empty()) << "those of another call";
}

TEST_F(Headers, ComeBeforeTheItemsOfAStream) {
  Channel channel = connect();
  auto talk = [&]() -> Task<> {
    auto opened = co_await channel.call<&Crier::slow>(kPatience);
    auto stream = std::move(opened).value_or_throw();
    Status came = co_await stream.until_headers(kPatience);
    EXPECT_TRUE(came.ok()) << came.what();
    EXPECT_EQ(stream.headers(), Metadata().add("mood", "slow"));
    static_cast<void>(co_await stream.write(5));
    auto item = co_await stream.read();
    EXPECT_EQ(item, 5U);
    Status ended = co_await stream.finish();
    EXPECT_TRUE(ended.ok()) << ended.what();
  };
  run(talk());
  EXPECT_EQ(crier_.again.code(), Code::kFailedPrecondition);
}

TEST_F(Headers, AreNotAwaitedForever) {
  Channel channel = connect();
  auto talk = [&]() -> Task<> {
    auto opened = co_await channel.call<&Desk::talk>(kPatience);
    auto stream = std::move(opened).value_or_throw();
    Status late = co_await stream.until_headers(20ms);
    EXPECT_EQ(late.code(), Code::kDeadlineExceeded);
    static_cast<void>(stream.writes_done());
    Status none = co_await stream.until_headers(kPatience);
    EXPECT_TRUE(none.ok()) << none.what();
    EXPECT_TRUE(stream.headers().empty());
  };
  run(talk());
}

TEST_F(Headers, ThatAreTooLargeAreAnError) {
  Channel channel = connect();
  EXPECT_EQ(run(channel.call<&Crier::too_many>(kPatience)).status().code(), Code::kResourceExhausted);
}

}  // namespace rpc_test::headers_test
