// Spans: their trace across two servers, calls that fail or are given up, and the file for a collector.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <vector>

#include "rrdma/rpc/spans.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test {

// Asks the next server, in the same trace.
struct Agent {
  Task<Result<std::uint32_t>> add_there(Call& call, const Pair& pair) {
    CallOptions options(call.limit());
    options.metadata.add(kTraceParent, call.trace()->text());
    co_return co_await next->call<&Desk::add>(pair, std::move(options));
  }
  Channel* next = nullptr;
};

namespace span_test {

using Id = std::array<std::uint8_t, 8>;

struct Kept {
  explicit Kept(const Span& span)
      : kind(span.kind),
        context(span.context),
        parent(span.parent),
        name(std::string(span.service) + "/" + std::string(span.method)),
        peer(span.peer),
        duration(span.duration),
        code(span.code) {}
  Span::Kind kind;
  TraceContext context;
  Id parent;
  std::string name;
  std::string peer;
  std::chrono::nanoseconds duration;
  Code code;
};

class Sink {
 public:
  SpanSink sink() {
    return [this](const Span& span) { all.emplace_back(span); };
  }
  std::vector<Kept> all;
};

class Spans : public ::testing::Test {
 protected:
  struct Place {
    Place(Context& context, Sink& sink) : server(context, options(sink)) {
      add_all(server, desk);
      const Status listening = server.listen(address_of(context) + ":0");
      EXPECT_TRUE(listening.ok()) << listening.what();
    }
    static ServerOptions options(Sink& sink) {
      ServerOptions options;
      options.spans = sink.sink();
      return options;
    }
    Desk desk;
    Server server;
  };
  Spans()
      : context_(Context::open(ContextOptions{}).value_or_throw()),
        near_(context_, served_),
        far_(context_, served_) {}
  Channel connect(const Server& server) {
    ChannelOptions options;
    options.spans = called_.sink();
    return context_.run(rrdma::rpc::connect(context_, server.address(), options, kPatience)).value_or_throw();
  }
  void await_spans(std::size_t served, std::size_t called) {
    EXPECT_TRUE(
        context_.run_until([&] { return served_.all.size() >= served && called_.all.size() >= called; },
                           Clock::now() + kPatience));
    ASSERT_EQ(served_.all.size(), served);
    ASSERT_EQ(called_.all.size(), called);
  }
  Context context_;
  Sink served_, called_;
  Place near_, far_;
};

TEST_F(Spans, FollowACallThroughTwoServers) {
  Channel next = connect(far_.server);
  Agent agent;
  agent.next = &next;
  near_.server.add<&Agent::add_there>(agent);
  Channel channel = connect(near_.server);
  EXPECT_EQ(context_.run(channel.call<&Agent::add_there>({1, 2}, kPatience)).value(), 3U);
  await_spans(2, 2);
  // In the order of their ends.
  const Kept &inner_served = served_.all[0], &outer_served = served_.all[1];
  const Kept &inner_called = called_.all[0], &outer_called = called_.all[1];
  EXPECT_EQ(outer_called.parent, Id{}) << "the root";
  EXPECT_EQ(outer_served.parent, outer_called.context.span);
  EXPECT_EQ(inner_called.parent, outer_served.context.span);
  EXPECT_EQ(inner_served.parent, inner_called.context.span);
  for (const Kept* one : {&inner_served, &outer_served, &inner_called}) {
    EXPECT_EQ(one->context.trace, outer_called.context.trace);
    EXPECT_GT(one->duration.count(), 0);
    EXPECT_EQ(one->code, Code::kOk);
    EXPECT_FALSE(one->peer.empty());
  }
  EXPECT_EQ(outer_served.kind, Span::Kind::kServer);
  EXPECT_EQ(outer_called.kind, Span::Kind::kClient);
  EXPECT_EQ(outer_called.name, "Agent/add_there");
  EXPECT_EQ(inner_served.name, "Desk/add");
}

TEST_F(Spans, TellHowACallEnded) {
  Channel channel = connect(near_.server);
  static_cast<void>(context_.run(channel.call<&Desk::fail>(5, kPatience)));
  await_spans(1, 1);
  EXPECT_EQ(served_.all[0].code, Code::kNotFound);
  EXPECT_EQ(called_.all[0].code, Code::kNotFound);
  static_cast<void>(context_.run(channel.call<&Desk::nap>(60'000, 20ms)));
  await_spans(2, 2);
  EXPECT_EQ(called_.all[1].code, Code::kDeadlineExceeded);
  EXPECT_GE(called_.all[1].duration, 20ms);
  {
    auto call = channel.call<&Desk::nap>(60'000);
    call.start(std::noop_coroutine());
    context_.run_until([&] { return near_.desk.calls == 2; }, Clock::now() + kPatience);
  }
  await_spans(3, 3);
  EXPECT_EQ(called_.all[2].code, Code::kCancelled);
  EXPECT_EQ(served_.all[2].code, Code::kCancelled);
}

TEST_F(Spans, CoverAWholeStream) {
  Channel channel = connect(near_.server);
  context_.run([](Channel& on) -> Task<> {
    auto opened = co_await on.call<&Desk::count>({5, 10}, kPatience);
    auto stream = std::move(opened).value_or_throw();
    for (;;) {
      auto item = co_await stream.read();
      if (!item) break;
    }
    static_cast<void>(co_await stream.finish());
  }(channel));
  await_spans(1, 1);
  EXPECT_EQ(served_.all[0].parent, called_.all[0].context.span);
}

TEST_F(Spans, OfATraceThatIsNotSampled) {
  Channel channel = connect(near_.server);
  const TraceContext quiet = TraceContext::fresh(false);
  CallOptions options(kPatience);
  options.metadata.add(kTraceParent, quiet.text());
  EXPECT_TRUE(context_.run(channel.call<&Desk::add>({1, 2}, std::move(options))).ok());
  await_spans(0, 0);
  // With a parent of the program.
  const TraceContext loud = TraceContext::fresh();
  CallOptions again(kPatience);
  again.metadata.add(kTraceParent, loud.text());
  EXPECT_TRUE(context_.run(channel.call<&Desk::add>({1, 2}, std::move(again))).ok());
  await_spans(1, 1);
  EXPECT_EQ(called_.all[0].parent, loud.span);
  EXPECT_EQ(called_.all[0].context.trace, loud.trace);
}

// ---- the format ----

Span example() {
  Span span;
  span.kind = Span::Kind::kClient;
  span.context = *TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  span.parent = {0, 1, 2, 3, 4, 5, 6, 255};
  span.service = "Desk";
  span.method = "add";
  span.peer = "10.9.0.1:7000";
  span.begin = std::chrono::system_clock::time_point(std::chrono::nanoseconds(1'700'000'000'000'000'001));
  span.duration = std::chrono::nanoseconds(41);
  span.code = Code::kNotFound;
  span.message = "no \"x\"\n\x7f \xc3\xa4 \xff\xc0\x80 \\";
  return span;
}

TEST(SpanLine, IsAMessageOfTheProtocol) {
  EXPECT_EQ(
      otlp_line(example(), "shop"),
      R"({"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},)"
      R"("scopeSpans":[{"scope":{"name":"rrdma.rpc"},"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c",)"
      R"("spanId":"b7ad6b7169203331","parentSpanId":"00010203040506ff","name":"Desk/add","kind":3,)"
      R"("startTimeUnixNano":"1700000000000000001","endTimeUnixNano":"1700000000000000042","attributes":[)"
      R"({"key":"rpc.system","value":{"stringValue":"rrdma"}},)"
      R"({"key":"rpc.service","value":{"stringValue":"Desk"}},)"
      R"({"key":"rpc.method","value":{"stringValue":"add"}},)"
      R"({"key":"network.peer.address","value":{"stringValue":"10.9.0.1:7000"}},)"
      R"({"key":"rpc.grpc.status_code","value":{"intValue":"5"}}],)"
      R"("status":{"code":2,"message":"no \"x\"\u000a\u007f )"
      "\xc3\xa4"
      R"( \ufffd\ufffd\ufffd \\"}}]}]}]})");
}

TEST(SpanLine, OfTheRootAndOfSuccess) {
  Span span = example();
  span.parent = {};
  span.code = Code::kOk;
  const std::string line = otlp_line(span, "shop");
  EXPECT_EQ(line.find("parentSpanId"), std::string::npos);
  EXPECT_NE(line.find(R"("status":{}}]}]}]})"), std::string::npos) << line;
}

TEST(SpanLine, IsWrittenToAFile) {
  const std::string path = "/tmp/rrdma-spans." + std::to_string(::getpid());
  {
    auto opened = SpanFile::open(path, "shop");
    ASSERT_TRUE(opened.ok()) << opened.status().what();
    const SpanSink sink = *opened;
    for (int i = 0; i < 1000; ++i) sink(example());
    EXPECT_TRUE(opened->flush().ok());
  }
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  std::ifstream file(path);
  unsigned lines = 0;
  for (std::string line; std::getline(file, line); ++lines) ASSERT_EQ(line, otlp_line(example(), "shop"));
  EXPECT_EQ(lines, 1000U);
  std::remove(path.c_str());
  EXPECT_EQ(SpanFile::open("/no/such/folder/spans", "shop").status().code(), Code::kUnavailable);
  auto full = SpanFile::open("/dev/full", "shop");
  ASSERT_TRUE(full.ok());
  (*full)(example());
  EXPECT_NE(full->flush().message().find("lost"), std::string::npos);
}

}  // namespace span_test
}  // namespace rpc_test
