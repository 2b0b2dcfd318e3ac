// Gives up every operation at every point in every way. A check against the headers ensures that the table is
// complete.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <vector>

#include "tests/libraries/comm/withdrawing.h"

namespace comm_test::every_operation_test {

struct Entry {
  const char* type;  // the awaited class
  const char* what;
  std::function<Task<bool>(std::stop_token, Limit)> make;
};

class EveryOperation : public Withdrawing {
 protected:
  // Adds an operation that takes a Limit. The entry awaits it and reports whether it succeeded.
  template <typename Make>
  void add(const char* type, const char* what, Make make) {
    entries_.push_back({type, what, [make](std::stop_token, Limit limit) -> Task<bool> {
                          auto operation = make(std::move(limit));
                          auto result = co_await operation;
                          co_return result.ok();
                        }});
  }

  void add_transfers() {
    memory_ = share(context_, target_, Access::kRead | Access::kWrite).value_or_throw();
    word_ =
        share(context_, std::span<std::uint64_t>(counter_), Access::kAtomic | Access::kRead | Access::kWrite)
            .value_or_throw();
    add("Transferring", "send", [this](Limit l) { return pair_.client.send(take(2000), l); });
    add("Transferring", "write",
        [this](Limit l) { return pair_.client.write(take(50000), memory_.remote(), l); });
    add("Transferring", "write with immediate",
        [this](Limit l) { return pair_.client.write(take(100), memory_.remote(), 7U, l); });
    add("Transferring", "read",
        [this](Limit l) { return pair_.client.read(memory_.remote(), take(50000), l); });
    add("Transferring", "read, fenced",
        [this](Limit l) { return pair_.client.read(memory_.remote(), take(50000), l).fenced(); });
    add("Copying", "send of a few octets", [this](Limit l) { return pair_.client.send("few", l); });
    add("Copying", "send of many octets", [this](Limit l) { return pair_.client.send(many_, l); });
    add("Copying", "flush", [this](Limit l) { return pair_.client.flush(l); });
    add("Exchanging", "fetch_add",
        [this](Limit l) { return pair_.client.fetch_add(word_.remote()[0], 1, l); });
    add("Exchanging", "compare_swap",
        [this](Limit l) { return pair_.client.compare_swap(word_.remote()[0], 0, 1, l); });
    add("Fetching", "read of one object",
        [this](Limit l) { return pair_.client.read(word_.remote()[0], l); });
    if (context_.device().memory_windows)
      add("Lending", "lend", [this](Limit l) {
        return pair_.server.lend(std::span<std::uint64_t>(counter_), Access::kRead, l);
      });
    add("Receiving", "receive", [this](Limit l) { return pair_.client.receive(l); });
  }

  void add_connections() {
    add("Connecting", "connect", [this](Limit l) { return context_.connect(address(), l); });
    add("LookingUp", "look up", [this](Limit l) { return context_.look_up("localhost:7", l); });
    add("Accepting", "accept", [this](Limit l) { return listener_.accept(l); });
    add("Arriving", "next", [this](Limit l) { return listener_.next(l); });
    entries_.push_back(
        {"Accepting", "accept of one request", [this](std::stop_token, Limit limit) -> Task<bool> {
           auto connecting = context_.connect(address(), kPatience);
           connecting.start();
           auto incoming = co_await listener_.next(limit);
           if (!incoming) co_return false;
           co_return (co_await incoming->accept(context_, {}, limit)).ok();
         }});
    entries_.push_back({"Settling", "close", [this](std::stop_token, Limit limit) -> Task<bool> {
                          Pair pair = co_await connected();
                          co_return (co_await pair.client.close(limit)).ok();
                        }});
  }

  void add_datagrams() {
    peer_ = run(as_task(one_.resolve(two_.address(), kPatience))).value_or_throw();
    add("PacketSending", "send of a packet", [this](Limit l) { return one_.send(peer_, take(500), l); });
    add("PacketReceiving", "receive of a packet", [this](Limit l) { return two_.receive(l); });
    add("Resolving", "resolve", [this](Limit l) { return one_.resolve(two_.address(), l); });
    add("Joining", "join", [this](Limit l) { return one_.join("239.7.7.11", l); });
  }

  void add_the_rest() {
    all_ = pool_.take(8192).value_or_throw();
    add("Taking", "wait for a buffer", [this](Limit l) { return pool_.wait(8192, l); });
    add("Sleeping", "yield", [this](Limit) { return context_.yield(); });
    entries_.push_back({"Sleeping", "sleep", [this](std::stop_token stop, Limit limit) -> Task<bool> {
                          if (limit.timed()) co_return (co_await context_.sleep_until(limit.at(), stop)).ok();
                          co_return (co_await context_.sleep(1h, stop)).ok();
                        }});
    entries_.push_back({"Signal", "a signal", [this](std::stop_token, Limit limit) -> Task<bool> {
                          Signal signal(context_, limit);
                          co_return (co_await signal).ok();
                        }});
  }

  Pair pair_ = connect();
  Pair other_ = connect();
  Buffer target_ = take(50000);
  const std::string many_ = std::string(3000, 'm');  // copied when the send starts
  alignas(8) std::uint64_t counter_[1] = {0};
  Share<std::byte> memory_;
  Share<std::uint64_t> word_;
  Datagram one_ = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  Datagram two_ = Datagram::open(context_, address_of(context_) + ":0").value_or_throw();
  Peer peer_;
  Pool pool_ = Pool::create(context_, {.limit = 8192}).value_or_throw();
  Buffer all_;
  std::vector<Entry> entries_;
};

TEST_F(EveryOperation, GivenUpInEveryWay) {
  add_transfers();
  add_connections();
  add_datagrams();
  add_the_rest();
  const std::size_t before = context_.pool().in_use();
  const std::size_t residents = context_.endpoints();
  for (const Entry& entry : entries_) {
    SCOPED_TRACE(entry.what);
    each_way(entry.make);
    exchange_is_sound(other_);
    ASSERT_TRUE(pair_.client.open() && pair_.server.open()) << "a connection ended over it";
    exchange_is_sound(pair_);
    // Connections that succeeded in time wait at the listener.
    run([](Listener& listener) -> Task<> {
      while ((co_await listener.accept(20ms)).ok()) continue;
    }(listener_));
    EXPECT_TRUE(context_.run_until(
        [&] { return context_.pool().in_use() <= before && context_.endpoints() <= residents; },
        Clock::now() + kPatience))
        << "memory or an endpoint was lost: " << context_.pool().in_use() << " octets of " << before << ", "
        << context_.endpoints() << " endpoints of " << residents;
  }
  all_ = Buffer();
  EXPECT_EQ(pool_.in_use(), 0U) << "who went away holds nothing";
}

TEST_F(EveryOperation, TheTableKnowsThemAll) {
  if (!std::filesystem::is_directory(COMM_HEADERS)) GTEST_SKIP() << "the headers are not here";
  add_transfers();
  add_connections();
  add_datagrams();
  add_the_rest();
  std::set<std::string> known;
  for (const Entry& entry : entries_) known.insert(entry.type);
  if (!context_.device().memory_windows) known.insert("Lending");
  const std::regex declared(
      R"(class (?:RRDMA_COMM_API )?(\w+) final : public (?:Operation|detail::Fenceable<))");
  std::set<std::string> found;
  for (const auto& header : std::filesystem::directory_iterator(COMM_HEADERS)) {
    std::ifstream file(header.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (std::regex_search(line, match, declared)) found.insert(match[1]);
    }
  }
  EXPECT_GE(found.size(), 17U);
  EXPECT_EQ(known, found);
}

}  // namespace comm_test::every_operation_test
