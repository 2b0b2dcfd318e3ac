// Interceptors at both ends, health, reflection and statistics.
#include <vector>

#include "tests/libraries/rpc/world.h"

namespace rpc_test {

// The services that every server has, by name.
struct Health {
  static constexpr std::string_view kService = "rrdma.Health";
  Result<std::uint32_t> check(const std::string&);
};
struct Reflection {
  static constexpr std::string_view kService = "rrdma.Reflection";
  Result<std::string> list();
  Result<std::string> describe(const std::string&);
};
struct Metrics {
  static constexpr std::string_view kService = "rrdma.Metrics";
  Task<Result<std::string>> text();
};

namespace service_test {

class Ends {
 public:
  void add(const Method& method, const Status& status) {
    told.push_back(std::string(method.name) + " " + std::string(name_of(status.code())));
  }
  std::vector<std::string> told;
};

// Constructed before the server that reports to it.
struct Told {
  Ends server_ends_;
};
class Interceptors : protected Told, public World {
 protected:
  Interceptors() : World(options(server_ends_)) {}
  static ServerOptions options(Ends& ends) {
    ServerOptions options;
    options.before = [](Call& call) {
      return call.metadata().find("door") == "shut" ? Status(Code::kPermissionDenied, "the door is shut")
                                                    : Status();
    };
    options.after = [&ends](const Call& call, const Status& status) { ends.add(call.method(), status); };
    return options;
  }
  ChannelOptions counted() {
    ChannelOptions options;
    options.before = [this](const Method& method, CallOptions& call) {
      if (method.name == "fail") return Status(Code::kAborted, "not from here");
      if (!door_.empty()) call.metadata.add("door", door_);
      return Status();
    };
    options.after = [this](const Method& method, const Status& status, std::chrono::nanoseconds took) {
      EXPECT_GT(took.count(), 0);
      client_ends_.add(method, status);
    };
    return options;
  }
  Ends client_ends_;
  std::string door_;
};

TEST_F(Interceptors, SeeEveryCallOnce) {
  Channel channel = connect(counted());
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
  EXPECT_EQ(run(channel.call<&Desk::nap>(2000, 20ms)).status().code(), Code::kDeadlineExceeded);
  settle();
  EXPECT_EQ(run(channel.call<&Desk::raise>(kPatience)).status().code(), Code::kUnknown);
  EXPECT_EQ(client_ends_.told,
            (std::vector<std::string>{"add ok", "nap deadline exceeded", "raise unknown"}));
  // Both ends detect the deadline; the faster one determines the status.
  ASSERT_EQ(server_ends_.told.size(), 3U);
  EXPECT_EQ(server_ends_.told[0], "add ok");
  EXPECT_EQ(server_ends_.told[1].substr(0, 4), "nap ");
  EXPECT_EQ(server_ends_.told[2], "raise unknown");
}

TEST_F(Interceptors, MayChangeACallAndRefuseIt) {
  Channel channel = connect(counted());
  EXPECT_EQ(run(channel.call<&Desk::fail>(3, kPatience)).status().code(), Code::kAborted);
  EXPECT_EQ(server_.counters().calls, 0U) << "nothing was sent";
  EXPECT_TRUE(client_ends_.told.empty());
  door_ = "shut";
  EXPECT_EQ(run(channel.call<&Desk::add>({1, 2}, kPatience)).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(desk_.calls, 0U);
  door_ = "open";
  Metadata back;
  EXPECT_EQ(run(channel.call<&Desk::echo>("x", CallOptions(kPatience).trailers_into(back))).value(), "x");
  EXPECT_EQ(back.find("back-door"), "open");
}

TEST_F(Interceptors, SeeStreamsEnd) {
  Channel channel = connect(counted());
  const auto all = [](Channel& on) -> Task<> {
    auto opened = co_await on.call<&Desk::count>({5, 10}, kPatience);
    auto items = std::move(opened).value_or_throw();
    for (;;) {
      auto item = co_await items.read();
      if (!item) break;
    }
    auto given_up = co_await on.call<&Desk::count>({100000, 1000}, kPatience);
    auto more = std::move(given_up).value_or_throw();
    static_cast<void>(co_await more.read());
  };
  run(all(channel));
  settle();
  EXPECT_EQ(client_ends_.told, (std::vector<std::string>{"count ok", "count cancelled"}));
}

class Services : public World {};

TEST_F(Services, TellTheirHealth) {
  Channel channel = connect();
  const auto health = [&](const char* of) { return run(channel.call<&Health::check>(of, kPatience)); };
  EXPECT_EQ(health("").value(), 1U);
  EXPECT_EQ(health("Desk").value(), 1U);
  EXPECT_EQ(health("Chair").status().code(), Code::kNotFound);
  server_.set_serving("Desk", false);
  EXPECT_EQ(health("Desk").value(), 2U);
  EXPECT_EQ(health("").value(), 2U);
  server_.set_serving("Desk", true);
  EXPECT_EQ(health("").value(), 1U);
}

TEST_F(Services, ListTheirMethods) {
  Channel channel = connect();
  const std::string list = run(channel.call<&Reflection::list>(kPatience)).value_or_throw();
  EXPECT_NE(list.find("Desk/add unary\n"), std::string::npos) << list;
  EXPECT_NE(list.find("Desk/count server-stream\n"), std::string::npos);
  EXPECT_NE(list.find("Desk/sum client-stream\n"), std::string::npos);
  EXPECT_NE(list.find("Desk/talk bidirectional\n"), std::string::npos);
  EXPECT_EQ(run(channel.call<&Reflection::describe>("Desk", kPatience)).status().code(), Code::kNotFound);
}

TEST_F(Services, CountByMethodAndStatus) {
  Channel channel = connect();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(run(channel.call<&Desk::add>({1, 2}, kPatience)).ok());
  EXPECT_FALSE(run(channel.call<&Desk::fail>(5, kPatience)).ok());
  const ServerStatistics statistics = run(server_.statistics());
  bool seen = false;
  for (const MethodStatistics& method : statistics.methods) {
    if (method.method != "add") continue;
    seen = true;
    EXPECT_EQ(method.service, "Desk");
    EXPECT_EQ(method.ended[0], 10U);
    EXPECT_EQ(method.running, 0U);
    EXPECT_EQ(method.latencies.count(), 10U);
    EXPECT_GT(method.latencies.percentile(0.5).count(), 0);
  }
  EXPECT_TRUE(seen);
  const std::string text = run(channel.call<&Metrics::text>(kPatience)).value_or_throw();
  EXPECT_NE(text.find("rrdma_rpc_calls_total{service=\"Desk\",method=\"add\",code=\"ok\"} 10\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("rrdma_rpc_calls_total{service=\"Desk\",method=\"fail\",code=\"not found\"} 1\n"),
            std::string::npos);
  EXPECT_NE(text.find("rrdma_rpc_call_seconds_bucket{service=\"Desk\",method=\"add\",le=\"+Inf\"} 10\n"),
            std::string::npos);
  EXPECT_NE(text.find("rrdma_rpc_connections 1\n"), std::string::npos);
}

TEST(LatenciesTest, PercentilesAreNearAndWhole) {
  Latencies some;
  EXPECT_EQ(some.percentile(0.5).count(), 0);
  for (int i = 1; i <= 100000; ++i) some.record(std::chrono::nanoseconds(i));
  EXPECT_EQ(some.count(), 100000U);
  for (const double share : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const double exact = share * 100000;
    EXPECT_GE(static_cast<double>(some.percentile(share).count()), exact * 0.999) << share;
    EXPECT_LE(static_cast<double>(some.percentile(share).count()), exact * 1.07) << share;
  }
  EXPECT_EQ(some.within(1h), 100000U);
  EXPECT_EQ(some.within(0ns), 0U);
  Latencies other;
  other.record(-5ns);
  other.record(std::chrono::hours(1000));
  other.merge(some);
  EXPECT_EQ(other.count(), 100002U);
}

}  // namespace service_test
}  // namespace rpc_test
