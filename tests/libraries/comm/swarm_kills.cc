#include "tests/libraries/comm/swarm_kills.h"

#include <deque>
#include <stop_token>
#include <string>
#include <utility>

#include "tests/libraries/comm/victim.h"

namespace comm_swarm {
namespace {

// Size of each half of the memory that each side opens: the first half is read, the second written.
constexpr std::size_t kHalf = 5000;
// The patterns of both sides, and that of memory that must not be written any more.
constexpr std::uint32_t kRead = 1;
constexpr std::uint32_t kWritten = 2;
constexpr std::uint32_t kOver = 3;

// The memory that a side opens to the other, sent in the hello.
struct Opened {
  RemoteSpan<std::byte> memory;
  RemoteRef<std::uint64_t> word;
};
static_assert(sizeof(Opened) <= kMaxHelloRequest);

Opened opened_by(const Endpoint& end) {
  Opened opened;
  if (end.hello().size() == sizeof(opened)) std::memcpy(&opened, end.hello().data(), sizeof(opened));
  return opened;
}

class Lent {
 public:
  explicit Lent(Context& context)
      : buffer_(context.pool().take(2 * kHalf).value_or_throw()),
        memory_(share(context, buffer_, Access::kRead | Access::kWrite).value_or_throw()),
        words_(
            share(context, std::span<std::uint64_t>(word_), Access::kAtomic | Access::kRead | Access::kWrite)
                .value_or_throw()),
        opened_{memory_.remote(), words_.remote()[0]} {
    fill(buffer_.bytes().first(kHalf), kRead);
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  // Probe silent peers, so that a waiter that sends nothing also notices a death.
  [[nodiscard]] Profile profile(std::uint64_t seed) const {
    Profile profile = any_profile(seed);
    profile.hello = std::as_bytes(std::span(&opened_, 1));
    profile.keep_alive = 100ms;
    return profile;
  }
  [[nodiscard]] std::span<std::byte> written() { return buffer_.bytes().subspan(kHalf); }

 private:
  Buffer buffer_;
  alignas(8) std::uint64_t word_[1] = {0};
  Share<std::byte> memory_;
  Share<std::uint64_t> words_;
  Opened opened_;
};

// Choices that both sides derive from the seed.
struct Plan {
  explicit Plan(std::uint64_t seed) {
    Random random(~seed);
    victim_listens = random.chance(50);
    connections = 1 + random.below(3);
  }
  // On such a connection neither side sends: only the keep-alive detects the death.
  [[nodiscard]] static bool silent(std::uint64_t seed, std::uint64_t connection) {
    return Random(~seed - connection - 1).chance(20);
  }
  bool victim_listens;
  std::uint64_t connections;
};

// One connection, as either side sees it.
struct Tie {
  Endpoint end;
  std::uint64_t seed;
  const bool* killed;                   // the victim was killed; null on its own side
  const seeds::Pulse* pulse = nullptr;  // of the victim
  bool closed = false;                  // this side has ended it
};

// Fails if this error of an operation was not permitted.
void judge(const Tie& tie, const Error& error) {
  const Code code = error.code();
  if (tie.closed && code == Code::kClosed) return;
  // The victim's peer closes and aborts. The victim reports any other error by ending before it is killed.
  if (tie.killed == nullptr) {
    if (code == Code::kPeerGone || code == Code::kClosedByPeer || code == Code::kClosed) return;
    fail(tie.seed, "the victim: " + error.what());
  }
  if (!*tie.killed && !tie.pulse->paused()) fail(tie.seed, "nobody was killed yet: " + error.what());
  if (code != Code::kPeerGone) fail(tie.seed, "the peer was killed: " + error.what());
  if (error.peer() != tie.end.peer()) fail(tie.seed, "the peer is not named: " + error.what());
}
// Whether to continue.
template <typename T>
bool goes_on(const Tie& tie, const Result<T>& result) {
  if (result.ok() || result.error().code() == Code::kDeadline) return true;
  judge(tie, result.error());
  return false;
}

// No send is given up, so the numbers have no gaps.
Task<> send_all(Context& context, Tie& tie, std::uint64_t seed) {
  Random random(seed);
  for (std::uint32_t number = 1;; ++number) {
    auto buffer = context.pool().take(any_size(random));
    if (!buffer) fail(seed, "no memory");
    fill(buffer->bytes(), number);
    if (random.chance(50)) {
      auto sent = co_await tie.end.send(std::move(*buffer));
      if (!sent) co_return judge(tie, sent.error());
      if (!sound(sent->bytes(), number)) fail(seed, "a buffer that was sent is another one now");
    } else {
      auto sent = co_await tie.end.send(std::span<const std::byte>(buffer->bytes()));
      if (!sent) co_return judge(tie, sent.error());
    }
    if (random.chance(5))
      static_cast<void>(co_await context.sleep(std::chrono::microseconds(random.below(300))));
  }
}

// Overwrites free memory of the pool. If a held message had been returned too early, its contents would
// change.
void scribble(Context& context) {
  for (std::size_t size = 4_KiB; size <= 64_KiB; size *= 2) {
    auto buffer = context.pool().take(size);
    if (buffer) fill(buffer->bytes(), kOver);
  }
}

Task<> receive_all(Context& context, Tie& tie, std::uint64_t seed) {
  Random random(seed);
  struct Loan {
    Message message;
    std::uint32_t number;
  };
  std::deque<Loan> loans;
  for (std::uint32_t next = 1;;) {
    Result<Message> message = Error();
    if (random.chance(80)) {
      message = co_await tie.end.receive(random.chance(50) ? Limit() : any_limit(random));
    } else {
      auto answer =
          co_await when_any(tie.end.receive(), context.sleep(std::chrono::microseconds(random.below(500))));
      if (answer.index() == 1) continue;
      message = std::move(std::get<0>(answer));
    }
    if (!message) {
      if (goes_on(tie, message)) continue;
      break;
    }
    const auto number = message->as<std::uint32_t>();
    if (number != next)
      fail(seed, "message " + std::to_string(number) + " came where " + std::to_string(next) + " was due");
    if (!sound(message->bytes(), number)) fail(seed, "a message was damaged");
    ++next;
    if (random.chance(30)) loans.push_back({std::move(*message), number});
    if (loans.size() > 2) loans.pop_front();
  }
  static_cast<void>(co_await context.sleep(std::chrono::microseconds(random.below(5000))));
  scribble(context);
  for (const Loan& loan : loans) {
    if (!sound(loan.message.bytes(), loan.number)) fail(seed, "a message on loan was damaged");
  }
}

Task<> one_sided(Context& context, Tie& tie, std::uint64_t seed) {
  Random random(seed);
  const Opened there = opened_by(tie.end);
  if (there.memory.size() != 2 * kHalf) fail(seed, "the hello is not what was said");
  for (bool going = true; going;) {
    auto buffer = context.pool().take(1 + random.below(kHalf));
    if (!buffer) fail(seed, "no memory");
    const Limit limit = any_limit(random);
    switch (random.below(4)) {
      case 0: {
        fill(buffer->bytes(), kWritten);
        going = goes_on(tie, co_await tie.end.write(std::move(*buffer), there.memory.last(kHalf), limit));
        break;
      }
      case 1: {
        auto read = co_await tie.end.read(there.memory.first(buffer->size()), std::move(*buffer), limit);
        going = goes_on(tie, read);
        if (read && !sound(read->bytes(), kRead)) fail(seed, "what was read is wrong");
        break;
      }
      case 2: going = goes_on(tie, co_await tie.end.fetch_add(there.word, 1, limit)); break;
      default: going = goes_on(tie, co_await tie.end.flush(limit)); break;
    }
    // Let other tasks run: each operation may complete without waiting.
    if (going) static_cast<void>(co_await context.sleep(std::chrono::microseconds(random.below(100))));
  }
}

Task<> wait_for_the_end(Tie& tie) { judge(tie, (co_await tie.end.receive()).error()); }

// All kinds of operations concurrently on one connection, until it ends.
Task<> talk(Context& context, Tie& tie, std::uint64_t seed, bool silent) {
  if (silent) {
    co_await wait_for_the_end(tie);
  } else {
    co_await when_all(send_all(context, tie, seed), receive_all(context, tie, seed + 1),
                      one_sided(context, tie, seed + 2));
  }
}

// ---- the killer ----

struct Scene {
  Context& context;
  std::uint64_t seed;
  seeds::Victim victim;
  std::deque<Tie> ties;
  Scope talks;
  std::stop_source nobody_comes;
  bool killed = false;
};

// This side may end a connection by itself at about the same time.
Task<> end_one(Scene& scene, Tie& tie, Random& random) {
  static_cast<void>(co_await scene.context.sleep(std::chrono::microseconds(random.below(20000))));
  tie.closed = true;
  if (random.chance(50)) {
    tie.end.abort();
    co_return;
  }
  auto closed = co_await tie.end.close(kFar);
  if (!closed) judge(tie, closed.error());
}

void begin_talk(Scene& scene, Endpoint end, std::uint64_t number, Random& random) {
  const std::uint64_t own = scene.seed + 10 * number;
  Tie& tie = scene.ties.emplace_back(Tie{std::move(end), own, &scene.killed, &scene.victim.pulses->victim});
  scene.talks.spawn(talk(scene.context, tie, own, Plan::silent(scene.seed, number)));
  if (random.chance(20)) scene.talks.spawn(end_one(scene, tie, random));
}

Task<> meet(Scene& scene, Listener& listener, const Lent& lent, Random& random) {
  const Plan plan(scene.seed);
  for (std::uint64_t i = 0; i < plan.connections; ++i) {
    const Profile profile = lent.profile(scene.seed + i);
    if (plan.victim_listens) {
      auto end = co_await scene.context.connect(scene.victim.address, profile, kFar);
      if (end) {
        begin_talk(scene, std::move(*end), i, random);
        continue;
      }
      const Error& error = end.error();
      if ((!scene.killed && !scene.victim.pulses->victim.paused()) || error.peer() != scene.victim.address ||
          (error.code() != Code::kPeerGone && error.code() != Code::kUnreachable &&
           error.code() != Code::kRefused))
        fail(scene.seed, "connecting, and the peer was " + std::string(scene.killed ? "" : "not ") +
                             "killed: " + error.what());
    } else {
      auto end = co_await listener.accept(profile, scene.nobody_comes.get_token());
      if (end) {
        begin_talk(scene, std::move(*end), i, random);
        continue;
      }
      if (end.error().code() != Code::kCancelled) fail(scene.seed, "accepting: " + end.error().what());
    }
    co_return;
  }
}

Task<Clock::duration> kill_and_wait(Scene& scene) {
  co_await when_any(seeds::await_the_moment(scene.context, scene.seed),
                    scene.victim.pulses->killer.beat(scene.context));
  scene.killed = true;
  seeds::kill(scene.victim, scene.seed);
  const auto begin = Clock::now();
  // Requests sent before the kill have arrived by now, so stop waiting for more.
  static_cast<void>(co_await when_any(scene.talks.join(), scene.context.sleep(200ms)));
  scene.nobody_comes.request_stop();
  const auto over =
      co_await when_any(scene.talks.join(), seeds::time_to_run(scene.context, seeds::kPatience));
  if (over.index() == 1)
    fail(scene.seed, std::to_string(scene.talks.size()) + " waiters do not know that their peer is dead");
  co_return Clock::now() - begin;
}

}  // namespace

Task<Clock::duration> kill_a_peer(Context& context, std::uint64_t seed) {
  Random random(seed);
  Lent lent(context);
  Clock::duration until_all_knew;
  {
    Listener listener = context.listen(address_of(context) + ":0").value_or_throw();
    Scene scene{
        context, seed, seeds::start_victim(seed, {std::to_string(seed), std::string(listener.address())}),
        {},      {},   {}};
    scene.talks.spawn(meet(scene, listener, lent, random));
    until_all_knew = co_await kill_and_wait(scene);
  }
  fill(lent.written(), kOver);
  static_cast<void>(co_await context.sleep(std::chrono::microseconds(random.below(20000))));
  if (!sound(lent.written(), kOver)) fail(seed, "a dead peer wrote");
  co_return until_all_knew;
}

// ---- the victim ----

namespace {

Task<> live(Context& context, std::uint64_t seed, std::string address) {
  const Plan plan(seed);
  Lent lent(context);
  Listener listener;
  if (plan.victim_listens) {
    listener = context.listen(address_of(context) + ":0").value_or_throw();
    address = listener.address();
  }
  seeds::say_where(address, seed);
  std::deque<Tie> ties;
  Scope talks;
  for (std::uint64_t i = 0; i < plan.connections; ++i) {
    const std::uint64_t own = seed + 10 * i + 5;
    const Profile profile = lent.profile(own);
    Result<Endpoint> end = Error();
    if (plan.victim_listens) {
      end = co_await listener.accept(profile, kFar);
    } else {
      end = co_await context.connect(address, profile, kFar);
    }
    if (!end) fail(seed, "the victim: " + end.error().what());
    Tie& tie = ties.emplace_back(Tie{std::move(*end), own, nullptr});
    talks.spawn(talk(context, tie, own, Plan::silent(seed, i)));
  }
  co_await talks.join();
  static_cast<void>(co_await context.sleep(1h));
}

}  // namespace

int be_killed(int count, char** words) {
  seeds::end_with_parent();
  if (count != 4) return 2;
  Context context = Context::open().value_or_throw();
  context.run(when_any(seeds::pulses_of_this_victim().victim.beat(context),
                       live(context, std::strtoull(words[2], nullptr, 10), words[3])));
  return 0;
}

}  // namespace comm_swarm
