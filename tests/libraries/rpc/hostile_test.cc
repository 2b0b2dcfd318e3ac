// Peers that violate the protocol: their connection ends, and others are not affected. The peer is a bare
// endpoint that sends forged frames.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <vector>

#include "lib/rpc/frame.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::hostile_test {

using rrdma::comm::Endpoint;
using rrdma::comm::Message;
using rrdma::comm::Profile;
namespace wire = rrdma::rpc::detail;

std::vector<std::byte> octets_of(const wire::Frame& frame, std::size_t body = 0) {
  std::vector<std::byte> octets(wire::head_size(frame) + body);
  wire::emit_head(frame, octets.data());
  return octets;
}

wire::Frame call_of(const Method& method, std::uint32_t id) {
  wire::Frame frame;
  frame.kind = wire::Kind::kCall;
  frame.call = id;
  frame.method = method.id;
  frame.schema = method.schema;
  return frame;
}

// The resident memory of this process, which includes the server.
std::size_t resident_octets() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

class Hostile : public World {
 protected:
  explicit Hostile(const ServerOptions& options = {}) : World(options) {}
  Endpoint intrude(std::uint16_t depth = 64, std::uint8_t version = wire::kLowestVersion) {
    wire::ClientHello hello;
    hello.highest = version;
    hello.max_result = 1 << 20;
    const auto octets = wire::emit(hello);
    Profile profile;
    profile.hello = octets;
    profile.receive_depth = depth;
    auto connecting = context_.connect(address(), profile, kPatience);
    connecting.start();
    EXPECT_TRUE(context_.run_until([&] { return connecting.done(); }, Clock::now() + kPatience));
    return connecting.await_resume().value_or_throw();
  }
  void send(Endpoint& end, const std::vector<std::byte>& octets) {
    auto sending = end.send(std::span<const std::byte>(octets), kPatience);
    sending.start();
    EXPECT_TRUE(context_.run_until([&] { return sending.done(); }, Clock::now() + kPatience));
  }
  // The server ends this connection and still serves others.
  void expect_ended(Endpoint& end, const char* why) {
    EXPECT_TRUE(context_.run_until([&] { return !end.open(); }, Clock::now() + kPatience)) << why;
    Channel other = connect();
    EXPECT_EQ(run(other.call<&Desk::add>({1, 2}, kPatience)).value(), 3U) << why;
  }
  void expect_ended_by(const std::vector<std::byte>& octets, const char* why) {
    Endpoint end = intrude();
    send(end, octets);
    expect_ended(end, why);
  }
};

TEST_F(Hostile, WhatIsNoFrame) {
  expect_ended_by({}, "nothing");
  expect_ended_by(std::vector<std::byte>(4096, std::byte{0xff}), "noise");
  wire::Frame reply;
  reply.kind = wire::Kind::kReply;
  expect_ended_by(octets_of(reply), "what only a server says");
  wire::Frame proof;
  proof.kind = wire::Kind::kProof;
  expect_ended_by(octets_of(proof, wire::kProofSize), "a proof that nobody asked for");
  EXPECT_EQ(server_.counters().broken, 4U);
}

std::vector<std::byte> pack_of(std::initializer_list<std::vector<std::byte>> all) {
  wire::Frame pack;
  pack.kind = wire::Kind::kPack;
  std::vector<std::byte> octets = octets_of(pack);
  for (const auto& one : all) {
    const std::size_t at = octets.size();
    octets.resize(at + wire::kPackedHead);
    wire::emit_packed_head(one.size(), octets.data() + at);
    octets.insert(octets.end(), one.begin(), one.end());
  }
  return octets;
}

TEST_F(Hostile, Packs) {
  const auto call = [](std::uint32_t id) {
    return octets_of(call_of(MethodOf<&Desk::add>::method(), id), sizeof(Pair));
  };
  expect_ended_by(pack_of({call(1)}), "nobody packs in version 1");
  const auto expect_ended_in_two = [&](const std::vector<std::byte>& octets, const char* why) {
    Endpoint end = intrude(64, wire::kPackingVersion);
    send(end, octets);
    expect_ended(end, why);
  };
  expect_ended_in_two(pack_of({}), "a pack of nothing");
  expect_ended_in_two(pack_of({pack_of({call(1)})}), "a pack in a pack");
  expect_ended_in_two(pack_of({std::vector<std::byte>(8, std::byte{0xff})}), "no frame");
  auto cut = pack_of({call(1), call(2)});
  cut.pop_back();
  expect_ended_in_two(cut, "a length beyond the end");
  expect_ended_in_two(pack_of({call(1), call(2), std::vector<std::byte>(8)}), "a wrong one behind good ones");
  Endpoint end = intrude(64, wire::kPackingVersion);
  send(end, pack_of({call(1), call(2), call(3)}));
  const auto answered = [&] {
    const auto message = end.try_receive();
    const auto frame = wire::parse_frame(message.bytes());
    return frame && frame->kind == wire::Kind::kPack;
  };
  EXPECT_TRUE(context_.run_until(answered, Clock::now() + kPatience)) << "and is answered by one";
}

TEST_F(Hostile, NumbersOfCalls) {
  expect_ended_by(octets_of(call_of(MethodOf<&Desk::raise>::method(), 5000)),
                  "a slot beyond what was agreed on");
  Endpoint end = intrude();
  const auto nap = octets_of(call_of(MethodOf<&Desk::nap>::method(), 7), sizeof(std::uint32_t));
  auto long_nap = nap;
  long_nap[wire::head_size(call_of(MethodOf<&Desk::nap>::method(), 7)) + 1] = std::byte{0x40};
  send(end, long_nap);
  send(end, long_nap);
  expect_ended(end, "a number that is in use");
  settle();
  EXPECT_EQ(desk_.calls, 1U + 2U) << "the second one was not begun";
}

// The call refers to memory that is not open: the server's own connection breaks, and its memory is released.
TEST_F(Hostile, RegionsThatAreNone) {
  const std::size_t before = context_.pool().in_use();
  wire::Frame offering = call_of(MethodOf<&Desk::echo>::method(), 1);
  offering.flags = wire::flag::kOffered;
  offering.offered = {0x10000, 0x1234, 1 << 20};
  expect_ended_by(octets_of(offering), "an argument that cannot be read");
  wire::Frame lending = call_of(MethodOf<&Desk::make>::method(), 2);
  lending.flags = wire::flag::kLent;
  lending.lent = {0x10000, 0x1234, 1 << 20};
  auto octets = octets_of(lending, sizeof(std::uint32_t));
  octets[wire::head_size(lending) + 1] = std::byte{0x40};
  expect_ended_by(octets, "a result that cannot be written");
  offering.offered.length = ~0U;
  Endpoint end = intrude();
  send(end, octets_of(offering));
  EXPECT_TRUE(
      context_.run_until([&] { return end.counters().messages_received == 1; }, Clock::now() + kPatience))
      << "an argument that is too large is refused, not read";
  end = Endpoint();
  settle();
  EXPECT_TRUE(
      context_.run_until([&] { return context_.pool().in_use() <= before; }, Clock::now() + kPatience))
      << context_.pool().in_use() << " of " << before;
}

TEST_F(Hostile, Windows) {
  Endpoint end = intrude();
  send(end, octets_of(call_of(MethodOf<&Desk::nothing_read>::method(), 1)));
  wire::Frame item;
  item.kind = wire::Kind::kItem;
  item.call = 1;
  for (int i = 0; i < 17; ++i) send(end, octets_of(item, 4000));
  expect_ended(end, "more than the window");
  Endpoint wide = intrude();
  send(wide, octets_of(call_of(MethodOf<&Desk::talk>::method(), 1)));
  wire::Frame window;
  window.kind = wire::Kind::kWindow;
  window.call = 1;
  window.window = 0x7fffffff;
  send(wide, octets_of(window));
  send(wide, octets_of(window));
  expect_ended(wide, "a window without end");
}

// A client sends items of many pieces that the handler never reads. The server keeps at most one of them and
// the window; the rest stays with the client.
TEST_F(Hostile, ItemsThatNobodyReads) {
  wire::Frame piece;
  piece.kind = wire::Kind::kItem;
  piece.call = 1;
  const std::size_t body = wire::kFrameLimit - wire::head_size(piece);
  Endpoint end = intrude();
  send(end, octets_of(call_of(MethodOf<&Desk::nothing_read>::method(), 1)));
  std::size_t sent = 0, window = 64 << 10;
  const std::size_t before = resident_octets();
  // Items of 1 MiB, as long as the server grants window.
  while (sent < std::size_t{64} << 20) {
    piece.flags = sent % (1 << 20) + 2 * body < (1 << 20) ? wire::flag::kMore : 0;
    if (window < body + wire::kItemCost) {
      const auto given = [&] {
        const auto message = end.try_receive();
        const auto frame = message ? wire::parse_frame(message.bytes()) : std::nullopt;
        if (frame && frame->kind == wire::Kind::kWindow) window += frame->window;
        return window >= body + wire::kItemCost || !end.open();
      };
      if (!context_.run_until(given, Clock::now() + 1s) || !end.open()) break;
    }
    send(end, octets_of(piece, body));
    window -= body + wire::kItemCost;
    sent += body;
  }
  EXPECT_GT(sent, std::size_t{1} << 20) << "an item that is larger than the window is taken";
  EXPECT_LT(sent, std::size_t{3} << 20) << "items are paid for before anybody reads them";
  EXPECT_LT(resident_octets() - before, std::size_t{16} << 20);
  Channel other = connect();
  EXPECT_EQ(run(other.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

class HostileToLittle : public Hostile {
 protected:
  static ServerOptions little() {
    ServerOptions options;
    options.connection_memory = 1 << 20;
    return options;
  }
  HostileToLittle() : Hostile(little()) {}
};

// Many streams, each within its window, together exceed the memory of the connection.
TEST_F(HostileToLittle, ManyStreamsThatNobodyReads) {
  wire::Frame item;
  item.kind = wire::Kind::kItem;
  Endpoint end = intrude();
  for (std::uint32_t call = 1; call <= 60; ++call) {
    send(end, octets_of(call_of(MethodOf<&Desk::talk>::method(), call)));
    item.call = call;
    item.flags = wire::flag::kMore;  // the handler waits for the end of an item that never ends
    for (int i = 0; i < 8; ++i) send(end, octets_of(item, 4000));
  }
  unsigned refused = 0;
  const auto counted = [&] {
    const auto message = end.try_receive();
    const auto frame = message ? wire::parse_frame(message.bytes()) : std::nullopt;
    refused += frame && frame->kind == wire::Kind::kReply &&
               frame->status == static_cast<std::uint8_t>(Code::kResourceExhausted);
    return refused >= 20;
  };
  EXPECT_TRUE(context_.run_until(counted, Clock::now() + kPatience)) << refused;
  EXPECT_TRUE(end.open()) << "the connection is not to blame";
  Channel other = connect();
  EXPECT_EQ(run(other.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

// The memory of the pool that is in use at most while a client sends.
class Peak {
 public:
  explicit Peak(Context& context) : context_(&context), before_(context.pool().in_use()) {}
  void look() { most_ = std::max(most_, context_->pool().in_use()); }
  [[nodiscard]] std::size_t octets() const { return most_ - std::min(most_, before_); }

 private:
  Context* context_;
  std::size_t before_;
  std::size_t most_ = 0;
};

// Pieces of the pool are powers of two, so that an item of 2,100 bytes takes 4,096.
TEST_F(HostileToLittle, ItemsCountWithTheirRounding) {
  wire::Frame item;
  item.kind = wire::Kind::kItem;
  Endpoint end = intrude();
  Peak peak(context_);
  for (std::uint32_t call = 1; call <= 40; ++call) {
    send(end, octets_of(call_of(MethodOf<&Desk::nothing_read>::method(), call)));
    item.call = call;
    for (int i = 0; i < 25; ++i) {
      send(end, octets_of(item, 2100));
      peak.look();
    }
  }
  EXPECT_GT(peak.octets(), std::size_t{1} << 19) << "items are held at all";
  EXPECT_LT(peak.octets(), (std::size_t{1} << 20) + (std::size_t{1} << 17));
  EXPECT_TRUE(end.open()) << "the connection is not to blame";
}

// A client that takes nothing that the server sends: its next calls wait.
TEST_F(HostileToLittle, ResultsThatNobodyTakes) {
  constexpr std::uint32_t kCalls = 40;
  constexpr std::uint32_t kItems = 75000;  // of 4 bytes
  Endpoint end = intrude(64, wire::kOfferingVersion);
  Peak peak(context_);
  for (std::uint32_t call = 1; call <= kCalls; ++call) {
    auto octets = octets_of(call_of(MethodOf<&Desk::make>::method(), call), sizeof(kItems));
    std::memcpy(octets.data() + octets.size() - sizeof(kItems), &kItems, sizeof(kItems));
    send(end, octets);
  }
  std::vector<std::uint64_t> offered;
  unsigned replies = 0;
  const auto hear = [&] {
    while (const auto message = end.try_receive()) {
      const auto outer = wire::parse_frame(message.bytes());
      ASSERT_TRUE(outer);
      auto rest = outer->kind == wire::Kind::kPack ? outer->body : std::span<const std::byte>();
      for (auto frame = outer; frame; frame = wire::parse_frame(wire::next_packed(rest))) {
        if (frame->kind == wire::Kind::kReply) {
          ++replies;
          EXPECT_EQ(frame->status, 0) << frame->message;
          if (frame->has(wire::flag::kOffered)) offered.push_back(frame->offered.address);
        }
        if (rest.empty()) break;
      }
    }
  };
  context_.run_until([&] { return peak.look(), false; }, Clock::now() + 300ms);
  EXPECT_GT(peak.octets(), std::size_t{1} << 19);
  EXPECT_LT(peak.octets(), std::size_t{7} << 18) << "results that nobody takes do not count";
  Channel other = connect();
  EXPECT_EQ(run(other.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
  // Taking them lets the others begin.
  while (replies < kCalls) {
    wire::Frame taken;
    taken.kind = wire::Kind::kTaken;
    for (const std::uint64_t address : std::exchange(offered, {})) {
      taken.address = address;
      send(end, octets_of(taken));
    }
    const unsigned before = replies;
    ASSERT_TRUE(context_.run_until([&] { return hear(), replies != before; }, Clock::now() + kPatience))
        << replies;
  }
}

// A client that takes its results gets all of them, however little the server may hold for it.
TEST_F(HostileToLittle, ManyLargeResults) {
  Channel channel = connect();
  std::vector<Task<Result<Bulk<std::uint32_t>>>> calls;
  for (int i = 0; i < 40; ++i) calls.push_back(channel.call<&Desk::make>(75000, kPatience));
  for (const auto& one : run(when_all(std::move(calls)))) EXPECT_TRUE(one.ok()) << one.status().what();
}

// Names and values of one byte take a string each.
TEST_F(HostileToLittle, MetadataCounts) {
  Metadata many;
  for (int i = 0; i < 300; ++i) many.add("n", "");
  std::vector<std::byte> encoded(wire::emitted_size(many));
  wire::emit_metadata(many, encoded.data());
  Endpoint end = intrude();
  for (std::uint32_t call = 1; call <= 200; ++call) {
    wire::Frame frame = call_of(MethodOf<&Desk::nap>::method(), call);
    frame.metadata = encoded;
    const std::uint32_t ms = 60'000;
    auto octets = octets_of(frame, sizeof(ms));
    std::memcpy(octets.data() + octets.size() - sizeof(ms), &ms, sizeof(ms));
    send(end, octets);
  }
  EXPECT_LT(server_.calls(), 60U);
  EXPECT_GT(server_.calls(), 10U);
}

// The server stops receiving from a client that takes no replies, so its memory for that client is bounded.
TEST_F(Hostile, CreditsThatAreNeverGiven) {
  Endpoint end = intrude(8);
  Channel other = connect();
  static_cast<void>(run(other.call<&Desk::add>({1, 2}, kPatience)));
  const std::size_t before = context_.pool().in_use();
  const Method add = MethodOf<&Desk::add>::method();
  const auto octets = octets_of(call_of(add, 3), sizeof(Pair));
  unsigned sent = 0;
  for (; sent < 5000; ++sent) {
    auto sending = end.send(std::span<const std::byte>(octets), Limit(3s));
    sending.start();
    context_.run_until([&] { return sending.done(); }, Clock::now() + kPatience);
    if (!sending.await_resume()) break;
  }
  EXPECT_LT(sent, 1500U) << "the server went on listening";
  EXPECT_GT(sent, 100U);
  EXPECT_LT(context_.pool().in_use() - before, std::size_t{1} << 20);
  EXPECT_EQ(run(other.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
}

// A server that answers a call that was given up with parts, and never ends its answer.
TEST_F(Hostile, PartsOfACallThatWasGivenUp) {
  auto listener = context_.listen(address_of(context_) + ":0").value_or_throw();
  wire::ServerHello hello;
  hello.max_calls = 4;
  hello.max_argument = 4096;
  const auto octets = wire::emit(hello);
  Profile profile;
  profile.hello = octets;
  auto [connected, end] = run(when_all(rrdma::rpc::connect(context_, listener.address(), {}, kPatience),
                                       listener.accept(profile, kPatience)));
  Channel channel = std::move(connected).value_or_throw();
  Endpoint server = std::move(end).value_or_throw();
  std::optional<Task<Result<std::string>>> calling;
  calling.emplace(channel.call<&Desk::echo>("x", kPatience));
  calling->start(std::noop_coroutine());
  wire::Frame part;
  part.kind = wire::Kind::kPart;
  part.call = 0x10000;
  for (int i = 0; i < 10000; ++i) send(server, octets_of(part, 4000));
  context_.run_until([] { return false; }, Clock::now() + 20ms);
  const std::size_t before = resident_octets();
  calling.reset();
  context_.run_until([] { return false; }, Clock::now() + 20ms);
#if !defined(__SANITIZE_ADDRESS__)  // keeps freed memory for a while
  ::malloc_trim(0);
  EXPECT_LT(resident_octets(), before - (std::size_t{32} << 20)) << "nobody waits for the result any more";
#endif
  EXPECT_EQ(channel.calls(), 1U) << "its slot stays until the server has answered";
}

// A server that violates the protocol: the client's calls and the client itself end.
TEST_F(Hostile, Servers) {
  const auto reply_with = [this](const std::function<wire::Frame()>& make, CallOptions call_options) {
    auto listener = context_.listen(address_of(context_) + ":0").value_or_throw();
    wire::ServerHello hello;
    hello.max_calls = 4;
    hello.max_argument = 4096;
    const auto octets = wire::emit(hello);
    Profile profile;
    profile.hello = octets;
    auto [channel, end] = run(when_all(rrdma::rpc::connect(context_, listener.address(), {}, kPatience),
                                       listener.accept(profile, kPatience)));
    auto calling = channel.value().call<&Desk::echo>("x", std::move(call_options));
    calling.start(std::noop_coroutine());
    send(end.value(), octets_of(make()));
    EXPECT_TRUE(context_.run_until([&] { return calling.done(); }, Clock::now() + kPatience));
    return calling.take().status();
  };
  const auto reply = [](std::uint32_t id) {
    wire::Frame frame;
    frame.kind = wire::Kind::kReply;
    frame.call = id;
    return frame;
  };
  const std::uint32_t id = 0x10000;
  EXPECT_TRUE(reply_with([&] { return reply(id); }, kPatience).ok()) << "a good one, to compare";
  EXPECT_EQ(reply_with([&] { return reply(id + 1); }, kPatience).code(), Code::kInternal)
      << "an unknown number";
  const auto written = [&](std::uint32_t size) {
    return [&, size] {
      wire::Frame frame = reply(id);
      frame.flags = wire::flag::kWritten;
      frame.written = size;
      return frame;
    };
  };
  EXPECT_EQ(reply_with(written(5), kPatience).code(), Code::kInternal) << "written, and nothing was lent";
  EXPECT_EQ(reply_with(written(101), CallOptions(kPatience).lending(100)).code(), Code::kInternal);
  const auto item = [&] {
    wire::Frame frame;
    frame.kind = wire::Kind::kCall;
    frame.call = id;
    return frame;
  };
  EXPECT_EQ(reply_with(item, kPatience).code(), Code::kInternal) << "what only a client says";
}

}  // namespace rpc_test::hostile_test
