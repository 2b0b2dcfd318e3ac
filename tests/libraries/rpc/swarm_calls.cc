// The ledger, the service that records in it, and one caller for each kind of call.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "tests/libraries/rpc/swarm.h"

namespace rpc_swarm {

// ---- the ledger ----

namespace {
constexpr std::size_t kLedgerSize = kNumbers * sizeof(std::atomic<std::uint16_t>);
// A new process uses the lowest descriptors itself.
constexpr int kLeastDescriptor = 16;

int new_descriptor() {
  const int made = ::memfd_create("swarm", MFD_CLOEXEC);
  // Without O_CLOEXEC, so that victims inherit it.
  const int kept = ::fcntl(made, F_DUPFD, kLeastDescriptor);
  ::close(made);
  if (kept < 0 || ::ftruncate(kept, kLedgerSize) != 0) throw std::runtime_error("no memory for a ledger");
  return kept;
}
}  // namespace

Ledger::Ledger() : Ledger(new_descriptor()) {}
Ledger::Ledger(int descriptor) : descriptor_(descriptor) {
  void* memory = ::mmap(nullptr, kLedgerSize, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("a ledger cannot be mapped");
  times_ = static_cast<std::atomic<std::uint16_t>*>(memory);
}
Ledger::~Ledger() {
  ::munmap(times_, kLedgerSize);
  ::close(descriptor_);
}

// ---- the service ----

namespace {

constexpr std::size_t kNumberSize = 4;
constexpr std::size_t kHead = 2 * kNumberSize;
// The index of an item that must not arrive: it was written after the end of its call.
constexpr std::uint32_t kNever = ~0U;

// The numbers of the call and the item first, then a pattern of them.
std::string text_of(std::uint32_t call, std::uint32_t index, std::uint32_t size) {
  std::string text(size + kHead, '\0');
  for (std::size_t i = kHead; i < text.size(); ++i)
    text[i] = static_cast<char>(call * 13 + index * 31 + i * 7);
  for (std::size_t i = 0; i < kNumberSize; ++i) {
    text[i] = static_cast<char>(call >> (8 * i));
    text[i + kNumberSize] = static_cast<char>(index >> (8 * i));
  }
  return text;
}
std::uint32_t number_at(const std::string& text, std::size_t from) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < kNumberSize; ++i)
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[from + i])) << (8 * i);
  return number;
}
std::uint32_t call_of(const std::string& text) { return number_at(text, 0); }
std::uint32_t index_of(const std::string& text) { return number_at(text, kNumberSize); }
// Whether an item belongs to this call, at this place.
bool belongs(const std::string& text, std::uint32_t call, std::uint32_t index) {
  return text.size() >= kHead &&
         text == text_of(call, index, static_cast<std::uint32_t>(text.size() - kHead));
}

// The arguments of a stream: the last has only its numbers.
std::string argument_of(std::uint32_t call, std::uint32_t index, std::uint32_t count, Random& random) {
  if (index + 1 == count) return text_of(call, index, 0);
  return text_of(call, index, 1 + random.below(random.chance(95) ? 3000 : 60000));
}

}  // namespace

void Bench::executed(std::uint32_t number) {
  if (ledger_.add(number) > 1) fail(seed_, "call " + std::to_string(number) + " was executed twice");
}

void Bench::arrived(std::uint32_t index, const std::string& item, std::uint32_t& call) {
  if (item.size() < kHead) fail(seed_, "an argument was damaged");
  if (index == 0) call = call_of(item);
  if (!belongs(item, call, index))
    fail(seed_, "argument " + std::to_string(index) + " of call " + std::to_string(call) + " is number " +
                    std::to_string(index_of(item)) + " of call " + std::to_string(call_of(item)));
  if (index == 0) executed(call);
}

void Bench::ended(const rpc::Status& status, const std::string& last) {
  if (status.ok() && last.size() != kHead)
    fail(seed_, "a stream of arguments ended well before its last one");
}

namespace {
// Sleeps, so that many calls are executed but not answered when something happens. Returns false if the call
// was cancelled meanwhile.
Task<bool> rest(rpc::Call& call, std::uint32_t number) {
  Random random(number);
  if (random.chance(40)) co_return true;
  auto slept = co_await call.context().sleep(std::chrono::microseconds(random.below(4000)), call.stop());
  co_return slept.ok();
}

// Uses a stream some time after its handler has ended.
template <typename Stream>
Task<> use_late(comm::Context& context, Stream stream, std::uint64_t seed, std::uint32_t number) {
  // It starts before the handler has ended. On a loaded machine, a short sleep may be over before it begins.
  static_cast<void>(co_await context.yield());
  Random random(number);
  for (std::uint32_t i = 1 + random.below(3); i > 0; --i) {
    static_cast<void>(co_await context.sleep(std::chrono::microseconds(1 + random.below(2000))));
    rpc::Status status;
    if constexpr (requires { stream.read(); }) {
      const auto item = co_await stream.read(kFar);
      if (item) fail(seed, "a handler that has ended read an item of call " + std::to_string(call_of(*item)));
      status = stream.status();
    } else {
      status = co_await stream.write(text_of(number, kNever, random.below(9000)), kFar);
    }
    if (status.code() != rpc::Code::kCancelled)
      fail(seed, "the stream of a handler that has ended: " + status.what());
  }
}

// Keeps a copy of some streams of a handler, for use after its end.
template <typename Stream>
class Keepsake {
 public:
  Keepsake(comm::Scope& scope, rpc::Call& call, const Stream& stream, std::uint64_t seed)
      : scope_(scope), context_(call.context()), stream_(stream), seed_(seed) {}
  Keepsake(const Keepsake&) = delete;
  Keepsake& operator=(const Keepsake&) = delete;
  ~Keepsake() {
    if (number_ % 3 == 0) scope_.spawn(use_late(context_, stream_, seed_, number_));
  }
  void of(std::uint32_t number) { number_ = number; }

 private:
  comm::Scope& scope_;
  comm::Context& context_;
  Stream stream_;
  std::uint64_t seed_;
  std::uint32_t number_ = 1;
};
}  // namespace

Task<rpc::Result<std::string>> Bench::echo(rpc::Call& call, const std::string& text) {
  const std::uint32_t number = call_of(text);
  executed(number);
  const bool rested = co_await rest(call, number);
  if (!rested) co_return rpc::Status(rpc::Code::kCancelled);
  co_return text;
}

Task<rpc::Result<std::string>> Bench::peek(rpc::Call& call, const std::string& text) {
  const std::uint32_t number = call_of(text);
  ledger_.add(number);
  const bool rested = co_await rest(call, number);
  if (!rested) co_return rpc::Status(rpc::Code::kCancelled);
  co_return text;
}

Task<rpc::Status> Bench::items(rpc::Call& call, const Items& wish, rpc::Writer<std::string>& out) {
  executed(wish.number);
  Keepsake<rpc::Writer<std::string>> keepsake(leftovers_, call, out, seed_);
  keepsake.of(wish.number);
  for (std::uint32_t i = 0; i < wish.count; ++i) {
    rpc::Status sent = co_await out.write(text_of(wish.number, i, wish.size));
    if (!sent.ok()) co_return sent;
  }
  co_return rpc::Status();
}

Task<rpc::Result<std::uint64_t>> Bench::sum(rpc::Call& call, rpc::Reader<std::string>& in) {
  std::uint64_t sum = 0;
  std::uint32_t number = 1;
  std::string last;
  Keepsake<rpc::Reader<std::string>> keepsake(leftovers_, call, in, seed_);
  for (std::uint32_t next = 0;; ++next) {
    auto item = co_await in.read();
    if (!item) break;
    arrived(next, *item, number);
    keepsake.of(number);
    sum += item->size();
    last = std::move(*item);
  }
  ended(in.status(), last);
  if (!in.status().ok()) co_return in.status();
  co_return sum;
}

Task<rpc::Status> Bench::talk(rpc::Call& call, rpc::Reader<std::string>& in, rpc::Writer<std::string>& out) {
  std::uint32_t number = 1;
  std::string last;
  Keepsake<rpc::Writer<std::string>> keepsake(leftovers_, call, out, seed_);
  for (std::uint32_t next = 0;; ++next) {
    auto item = co_await in.read();
    if (!item) break;
    arrived(next, *item, number);
    keepsake.of(number);
    rpc::Status sent = co_await out.write(*item);
    if (!sent.ok()) co_return sent;
    last = std::move(*item);
  }
  ended(in.status(), last);
  co_return in.status();
}

void Bench::add_to(rpc::Server& server) {
  server.add<&Bench::echo>(*this);
  server.add<&Bench::peek>(*this);
  server.add<&Bench::items>(*this);
  server.add<&Bench::sum>(*this);
  server.add<&Bench::talk>(*this);
}

// ---- the callers ----

namespace {

std::uint32_t any_size(Random& random) {
  if (random.chance(70)) return random.below(300);
  return random.chance(70) ? random.below(9000) : random.below(200000);
}

// The options of one call.
class Wishes {
 public:
  explicit Wishes(Random& random) : hurried_(random.chance(25)) {
    options_.limit =
        hurried_ ? comm::Limit(std::chrono::microseconds(random.below(3000))) : comm::Limit(kFar);
    if (random.chance(30)) options_.lend = 1 + random.below(200000);
    if (random.chance(20)) options_.metadata.add("n", std::string(random.below(200), 'm'));
  }
  [[nodiscard]] const rpc::CallOptions& options() const { return options_; }
  // Whether the deadline may pass before the call ends.
  [[nodiscard]] bool hurried() const { return hurried_; }

 private:
  bool hurried_;
  rpc::CallOptions options_;
};

// The number of a new call, which is open as long as this object exists.
class Number {
 public:
  Number(World& world, Way& way) : world_(world), number_(world.next++) {
    way.numbers.push_back(number_);
    world_.open.insert(number_);
  }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  ~Number() { world_.open.erase(number_); }
  operator std::uint32_t() const { return number_; }

 private:
  World& world_;
  std::uint32_t number_;
};

bool allowed(const rpc::Status& status, const Wishes& wishes, const Way& way) {
  using rpc::Code;
  switch (status.code()) {
    case Code::kOk: return true;
    case Code::kDeadlineExceeded: return wishes.hurried();
    case Code::kCancelled: return wishes.hurried() || way.cut;
    case Code::kUnavailable: return may_fail(way);
    default: return false;
  }
}

void judge(const World& world, std::uint32_t number, const rpc::Status& status, const Wishes& wishes,
           const Way& way) {
  const unsigned times = world.ledger.times(number);
  const std::string which = "call " + std::to_string(number);
  const unsigned most = world.repeatable.count(number) != 0 ? ~0U : 1;
  if (status.ok() && (times < 1 || times > most))
    fail(world.seed, which + " ended well and was executed " + std::to_string(times) + " times");
  if (status.refused() && times != 0) fail(world.seed, which + " was refused and executed");
  if (!allowed(status, wishes, way)) fail(world.seed, which + ": " + status.what());
}

Task<> one_echo(World& world, rpc::Channel channel, std::uint64_t seed, Way& way) {
  Random random(seed);
  const Wishes wishes(random);
  const Number number(world, way);
  const std::string text = text_of(number, 0, any_size(random));
  if (random.chance(15)) {
    // Give up by destruction after a while.
    auto answer = co_await comm::when_any(channel.call<&Bench::echo>(text, wishes.options()),
                                          world.context.sleep(std::chrono::microseconds(random.below(1500))));
    if (answer.index() == 0 && std::get<0>(answer).ok() && *std::get<0>(answer) != text)
      fail(world.seed, "a wrong result");
    co_return;
  }
  auto result = co_await channel.call<&Bench::echo>(text, wishes.options());
  if (result.ok() && *result != text) fail(world.seed, "a wrong result");
  judge(world, number, result.status(), wishes, way);
}

Task<> one_scan(World& world, rpc::Channel channel, std::uint64_t seed, Way& way) {
  Random random(seed);
  const Wishes wishes(random);
  const Number number(world, way);
  const Items wish{number, random.below(200), random.chance(90) ? random.below(2000) : random.below(100000)};
  auto opened = co_await channel.call<&Bench::items>(wish, wishes.options());
  if (!opened.ok()) {
    judge(world, wish.number, opened.status(), wishes, way);
    co_return;
  }
  auto stream = std::move(*opened);
  const std::uint32_t leave_at = random.chance(20) ? random.below(100) : ~0U;
  for (std::uint32_t next = 0;; ++next) {
    if (next == leave_at) co_return;
    auto item = co_await stream.read(kFar);
    if (!item) {
      if (stream.status().ok() && next != wish.count) fail(world.seed, "a stream that ended well has a gap");
      break;
    }
    if (next == wish.count || *item != text_of(wish.number, next, wish.size))
      fail(world.seed, "an item is wrong, out of order or of another call");
    if (random.chance(2))
      static_cast<void>(co_await world.context.sleep(std::chrono::microseconds(random.below(500))));
  }
  judge(world, wish.number, stream.status(), wishes, way);
}

Task<> one_sum(World& world, rpc::Channel channel, std::uint64_t seed, Way& way) {
  Random random(seed);
  const Wishes wishes(random);
  const Number number(world, way);
  auto opened = co_await channel.call<&Bench::sum>(wishes.options());
  if (!opened.ok()) {
    judge(world, number, opened.status(), wishes, way);
    co_return;
  }
  auto stream = std::move(*opened);
  const std::uint32_t count = 1 + random.below(200);
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string text = argument_of(number, i, count, random);
    rpc::Status sent = co_await stream.write(text, kFar);
    if (!sent.ok()) break;
    sum += text.size();
    if (random.chance(1)) co_return;
  }
  auto result = co_await stream.finish(kFar);
  if (result.ok() && *result != sum) fail(world.seed, "a sum is wrong: items were lost");
  judge(world, number, result.status(), wishes, way);
}

using Conversation = rpc::Conversation<std::string, std::string>;

Task<> say_all(Conversation& stream, std::uint32_t number, std::uint32_t count, std::uint64_t seed) {
  Random random(seed);
  for (std::uint32_t i = 0; i < count; ++i) {
    rpc::Status sent = co_await stream.write(argument_of(number, i, count, random), kFar);
    if (!sent.ok()) co_return;
  }
  static_cast<void>(stream.writes_done());
}

Task<> hear_all(const World& world, Conversation& stream, std::uint32_t number, std::uint32_t count) {
  for (std::uint32_t next = 0;; ++next) {
    auto item = co_await stream.read(kFar);
    if (!item) {
      if (stream.status().ok() && next != count) fail(world.seed, "a talk that ended well has a gap");
      co_return;
    }
    if (!belongs(*item, number, next))
      fail(world.seed, "an answer is wrong, out of order or of another call");
  }
}

Task<> one_talk(World& world, rpc::Channel channel, std::uint64_t seed, Way& way) {
  Random random(seed);
  const Wishes wishes(random);
  const Number number(world, way);
  auto opened = co_await channel.call<&Bench::talk>(wishes.options());
  if (!opened.ok()) {
    judge(world, number, opened.status(), wishes, way);
    co_return;
  }
  Conversation stream = std::move(*opened);
  const std::uint32_t count = 1 + random.below(100);
  auto both =
      comm::when_all(say_all(stream, number, count, seed + 1), hear_all(world, stream, number, count));
  if (random.chance(10)) {
    // Give up in the middle.
    static_cast<void>(co_await comm::when_any(
        std::move(both), world.context.sleep(std::chrono::microseconds(random.below(3000)))));
    co_return;
  }
  co_await both;
  judge(world, number, stream.status(), wishes, way);
}

// ---- cancelled at any point, and used afterwards ----

// The calls of other coroutines take the slot meanwhile.
template <typename Stream>
Task<> use_after_cancel(const World& world, Stream& stream, std::uint32_t number, Random& random) {
  for (std::uint32_t i = 1 + random.below(5); i > 0; --i) {
    rpc::Status status;
    const std::uint32_t how = random.below(3);
    if (how == 0) {
      if constexpr (requires { stream.read(); }) {
        const auto item = co_await stream.read(kFar);
        if (item) fail(world.seed, "a cancelled call read an item of call " + std::to_string(call_of(*item)));
        status = stream.status();
      } else {
        auto finished = co_await stream.finish(kFar);
        status = finished.status();
      }
    } else if (how == 1) {
      if constexpr (requires { stream.write(std::string()); }) {
        status = co_await stream.write(text_of(number, kNever, random.below(9000)), kFar);
      } else {
        status = co_await stream.finish(kFar);
      }
    } else {
      if constexpr (requires { stream.writes_done(); }) {
        status = stream.writes_done();
      } else {
        stream.cancel();
        continue;
      }
    }
    if (status.code() != rpc::Code::kCancelled || !stream.trailers().empty())
      fail(world.seed, "a stream of call " + std::to_string(number) + " after its end: " + status.what());
    static_cast<void>(co_await world.context.sleep(std::chrono::microseconds(random.below(1500))));
  }
}

// Reads and writes until the call ends.
template <typename Stream>
Task<> use_all(const World& world, Stream& stream, std::uint32_t number, std::uint32_t count,
               Random& random) {
  std::uint32_t read = 0;
  for (std::uint32_t i = 0;; ++i) {
    if constexpr (requires { stream.write(std::string()); }) {
      const bool more = i < count;
      rpc::Status sent;
      if (more) sent = co_await stream.write(argument_of(number, i, count, random), kFar);
      if (!more || !sent.ok()) {
        static_cast<void>(co_await stream.finish(kFar));
        co_return;
      }
    }
    if constexpr (requires { stream.read(); }) {
      const auto item = co_await stream.read(kFar);
      if (!item) {
        if (stream.status().ok() && read != count) fail(world.seed, "a cancelled stream looks complete");
        co_return;
      }
      if (!belongs(*item, number, read++)) fail(world.seed, "a result of another call");
    }
  }
}

template <typename Stream>
Task<> cancel_and_use(World& world, Stream stream, std::uint32_t number, std::uint32_t count,
                      Random& random) {
  const auto cancel = [](World& in, Stream& of, std::uint32_t after_us) -> Task<> {
    if (after_us != 0) static_cast<void>(co_await in.context.sleep(std::chrono::microseconds(after_us)));
    of.cancel();
  };
  const std::uint32_t after_us = random.chance(20) ? 0 : random.below(2500);
  if (random.chance(20)) {
    co_await cancel(world, stream, after_us);
  } else {
    co_await comm::when_all(use_all(world, stream, number, count, random), cancel(world, stream, after_us));
  }
  co_await use_after_cancel(world, stream, number, random);
}

Task<> one_cancelled(World& world, rpc::Channel channel, std::uint64_t seed, Way& way) {
  Random random(seed);
  const Wishes wishes(random);
  const Number number(world, way);
  const std::uint32_t count = 1 + random.below(200);
  rpc::Status status;
  switch (random.below(3)) {
    case 0: {
      const Items wish{number, count, random.chance(90) ? random.below(2000) : random.below(100000)};
      auto opened = co_await channel.call<&Bench::items>(wish, wishes.options());
      status = opened.status();
      if (opened.ok()) co_await cancel_and_use(world, std::move(*opened), number, count, random);
      break;
    }
    case 1: {
      auto opened = co_await channel.call<&Bench::sum>(wishes.options());
      status = opened.status();
      if (opened.ok()) co_await cancel_and_use(world, std::move(*opened), number, count, random);
      break;
    }
    default: {
      auto opened = co_await channel.call<&Bench::talk>(wishes.options());
      status = opened.status();
      if (opened.ok()) co_await cancel_and_use(world, std::move(*opened), number, count, random);
    }
  }
  if (!allowed(status, wishes, way)) fail(world.seed, "opening a stream: " + status.what());
}

}  // namespace

bool may_fail(const Way& way) {
  return way.drains || (way.killed != nullptr && *way.killed) ||
         (way.pulse != nullptr && way.pulse->paused());
}

Task<> any_call(World& world, rpc::Channel channel, std::uint64_t seed, Way& way) {
  switch (Random(~seed).below(8)) {
    case 0: return one_scan(world, std::move(channel), seed, way);
    case 1: return one_sum(world, std::move(channel), seed, way);
    case 2: return one_talk(world, std::move(channel), seed, way);
    case 3:
    case 4: return one_cancelled(world, std::move(channel), seed, way);
    default: return one_echo(world, std::move(channel), seed, way);
  }
}

Task<> any_client_call(World& world, rpc::Client& client, std::uint64_t seed, Way& way) {
  Random random(seed);
  const Wishes wishes(random);
  const bool repeatable = random.chance(50);
  const Number number(world, way);
  if (repeatable) world.repeatable.insert(number);
  const std::string text = text_of(number, 0, any_size(random));
  auto calling = repeatable ? client.call<&Bench::peek>(text, wishes.options())
                            : client.call<&Bench::echo>(text, wishes.options());
  auto result = co_await calling;
  if (result.ok() && *result != text) fail(world.seed, "a wrong result");
  // If it may be repeated or was refused, and has enough time, the call reaches the server that stays.
  Way left;
  if (wishes.hurried() || !repeatable) {
    left.killed = way.killed;
    left.pulse = way.pulse;
  }
  left.drains = way.drains && (wishes.hurried() || (!repeatable && !way.patient));
  judge(world, number, result.status(), wishes, left);
}

void judge_all(const World& world, const Way& way) {
  std::size_t executed = 0;
  for (const std::uint32_t number : way.numbers) {
    const unsigned times = world.ledger.times(number);
    if (times > 1 && world.repeatable.count(number) == 0)
      fail(world.seed,
           "call " + std::to_string(number) + " was executed " + std::to_string(times) + " times");
    executed += times;
  }
  const std::string ends = std::to_string(way.told) + " ends were told of";
  if (way.told < executed) fail(world.seed, ends + " for " + std::to_string(executed) + " executions");
  const std::size_t calls = way.numbers.size() + way.repeated;
  if (way.told > calls) fail(world.seed, ends + " for " + std::to_string(calls) + " calls");
}

namespace {
// With RPC_TEST_ENCRYPTED, all connections are encrypted.
template <typename Options>
Options usual(Options options) {
  if (std::getenv("RPC_TEST_ENCRYPTED") != nullptr) {
    options.secret = "of the swarm";
    options.encryption = rpc::Encryption::kAlways;
  }
  return options;
}
}  // namespace

rpc::ChannelOptions any_channel(Random& random, Way& way) {
  auto options = usual(rpc::ChannelOptions());
  options.window = 2048 + random.below(100000);
  options.after = [&way](const auto&...) { ++way.told; };
  return options;
}

rpc::ServerOptions any_server(Random& random) {
  auto options = usual(rpc::ServerOptions());
  options.window = 2048 + random.below(100000);
  options.max_calls = static_cast<std::uint16_t>(random.chance(20) ? 1 + random.below(4) : 1024);
  return options;
}

}  // namespace rpc_swarm
