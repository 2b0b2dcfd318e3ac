// Shared by both parts of the rrdma::rpc swarm: a service that records its executions in a ledger, and
// callers of every kind that check the results of their calls.
//
// The oracle: every call has a unique number. A successful call was executed exactly once, any other at most
// once, a refused one never; only an idempotent method may be executed again. A call ends exactly once, and a
// successful result is right. Every item of a stream names its call and its place in it. Items arrive in
// order without gaps, completely if the stream ended well, and never at another call. Streams of either side
// that are used after their call was cancelled or has ended do nothing. A call fails only because of its
// caller (deadline, cancellation, closed channel) or an event at its server. A server in another process may
// be taken for dead if it had no processor for long (victim.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "rrdma/rpc/rpc.h"
#include "tests/libraries/comm/seeds.h"
#include "tests/libraries/comm/victim.h"

namespace rpc_swarm {

using namespace rrdma;
using namespace std::chrono_literals;
using comm::Task;
using seeds::address_of;
using seeds::fail;
using seeds::kFar;
using seeds::Random;

constexpr std::uint32_t kNumbers = 1 << 16;

// The number of executions of each call, in shared memory, so that it survives a killed process.
class Ledger {
 public:
  Ledger();
  // Opens the ledger of another process, which left the descriptor open.
  explicit Ledger(int descriptor);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  // Records an execution. Returns the number of executions so far.
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

// The service. Its texts start with two numbers: that of the call and that of the item within a stream.
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
  // An item of a stream, or its end, arrived. `call`: set by the first item.
  void arrived(std::uint32_t index, const std::string& item, std::uint32_t& call);
  void ended(const rpc::Status& status, const std::string& last);

  Ledger& ledger_;
  std::uint64_t seed_;
  comm::Scope leftovers_;  // of handlers that have ended
};

// The callers of one process.
struct World {
  comm::Context& context;
  Ledger& ledger;
  std::uint64_t seed;
  std::uint32_t next = 1;                             // call
  std::set<std::uint32_t> open = {};                  // calls
  std::unordered_set<std::uint32_t> repeatable = {};  // calls
};

// The calls on one path, and the events that may affect them.
struct Way {
  bool cut = false;                     // this side closed the channel
  const bool* killed = nullptr;         // the server was killed
  const seeds::Pulse* pulse = nullptr;  // of the server's process, if it is another one
  bool drains = false;                  // the server may drain at some time
  bool patient = false;                 // and waits for the calls that it has started
  std::vector<std::uint32_t> numbers = {};
  std::size_t told = 0;      // ends reported by the channel
  std::size_t repeated = 0;  // calls that a client repeated
};

// Whether calls may end with kUnavailable.
bool may_fail(const Way& way);

rpc::ChannelOptions any_channel(Random& random, Way& way);
rpc::ServerOptions any_server(Random& random);

// One call of any kind.
Task<> any_call(World& world, rpc::Channel channel, std::uint64_t seed, Way& way);
// One call through a client that may use another server. REQUIRES: one of its servers stays.
Task<> any_client_call(World& world, rpc::Client& client, std::uint64_t seed, Way& way);
// Call this when all of them have ended.
void judge_all(const World& world, const Way& way);

}  // namespace rpc_swarm
