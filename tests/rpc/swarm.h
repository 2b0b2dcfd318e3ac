// What both parts of the swarm of rrdma::rpc stand on: a service that keeps a ledger of what it executed, and callers of every kind that judge
// how their calls ended.
//
// The oracle: every call has a number of its own. A call that ended well was executed exactly once, every other one at most once, one that was refused
// never; only a method that is idempotent may be executed again. A call ends, and once; what a good call gave is right. Items of a stream come in order,
// without gaps, and all of them if its end was good. A call ends badly only by what its caller did (a deadline, a cancellation, a channel closed)
// or by what happened to its server.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "rrdma/rpc/rpc.h"
#include "tests/comm/seeds.h"

namespace rpc_swarm {

using namespace rrdma;
using namespace std::chrono_literals;
using comm::Task;
using seeds::address_of;
using seeds::fail;
using seeds::kPatience;
using seeds::Random;

constexpr std::uint32_t kNumbers = 1 << 16;

// How often each call was executed. It lies in memory that processes share, so that it outlives one that is killed.
class Ledger {
 public:
  Ledger();
  // Another process's, which has left it open for this one.
  explicit Ledger(int descriptor);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  // Executed once more: how often it was until now.
  unsigned add(std::uint32_t number) { return times_[number % kNumbers].fetch_add(1) + 1U; }
  [[nodiscard]] unsigned times(std::uint32_t number) const { return times_[number % kNumbers].load(); }

 private:
  int descriptor_;
  std::atomic<std::uint16_t>* times_;
};

struct Items {
  std::uint32_t number;
  std::uint32_t count;
  std::uint32_t size;
};

// The service. Its texts begin with a number: that of the call, or of the item within a stream.
class Bench {
 public:
  static constexpr std::array<std::string_view, 1> kIdempotent = {"peek"};

  Bench(Ledger& ledger, std::uint64_t seed) : ledger_(ledger), seed_(seed) {}

  Task<rpc::Result<std::string>> echo(rpc::Call& call, const std::string& text);
  Task<rpc::Result<std::string>> peek(rpc::Call& call, const std::string& text);
  Task<rpc::Status> items(rpc::Call& call, const Items& wish, rpc::Writer<std::string>& out);
  Task<rpc::Result<std::uint64_t>> sum(rpc::Call& call, rpc::Reader<std::string>& in);
  Task<rpc::Status> talk(rpc::Call& call, rpc::Reader<std::string>& in, rpc::Writer<std::string>& out);

  void add_to(rpc::Server& server);

 private:
  void executed(std::uint32_t number);
  // An argument of a stream came, or its end did.
  void arrived(std::uint32_t index, const std::string& item);
  void ended(const rpc::Status& status, const std::string& last);

  Ledger& ledger_;
  std::uint64_t seed_;
};

// Who calls, in one process.
struct World {
  comm::Context& context;
  Ledger& ledger;
  std::uint64_t seed;
  std::uint32_t next = 1;                             // call
  std::unordered_set<std::uint32_t> repeatable = {};  // calls
};

// The calls that go one way, and what may happen to them beside what they ask for.
struct Way {
  bool cut = false;              // this side closed the channel
  const bool* killed = nullptr;  // the server was killed
  bool drains = false;           // the server goes away by itself at some time,
  bool patient = false;          // and lets what it has begun end before
  std::vector<std::uint32_t> numbers = {};
  std::size_t told = 0;      // ends that the channel told of
  std::size_t repeated = 0;  // calls that a client made once more
};

rpc::ChannelOptions any_channel(Random& random, Way& way);
rpc::ServerOptions any_server(Random& random);

// One call of any kind.
Task<> any_call(World& world, rpc::Channel channel, std::uint64_t seed, Way& way);
// One by a client that may go to another server. REQUIRES: one of its servers stays.
Task<> any_client_call(World& world, rpc::Client& client, std::uint64_t seed, Way& way);
// When they have all ended.
void judge_all(const World& world, const Way& way);

}  // namespace rpc_swarm
