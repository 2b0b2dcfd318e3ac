// WakeUp: who looks at the links of a lane, and who is woken for it. Two can look: the program, whenever it
// posts or polls, and the lane's thread, for passive targets of READ and WRITE, for programs that
// sleep in a completion channel, and for timers. To be woken for every packet would take the core away from a program that
// polls by itself; not to be woken would leave one that sleeps waiting.
//
// This class owns the whole state of that question for one lane, and nothing else: time is an argument or the Sleeper's,
// what the thread does is its Duty's, what peers do to wake it are Doorbells. So the protocol is tested in virtual time.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/instant.h"
#include "nic/lane/lane_lock.h"
#include "nic/wakeup/attention.h"
#include "nic/wakeup/delayed_ack.h"

namespace rrdma::nic {

// What the thread sleeps on, and the clock it sleeps by. In a process: epoll (lane_thread.h).
class Sleeper {
 public:
  enum class Watch : std::uint8_t { kEverything, kAllButLinks };
  struct Woken {
    bool by_event = false;  // and not by the deadline
    bool by_control = false;
    std::span<const int> links;  // descriptors at which something arrived; good until the next sleep
  };
  virtual ~Sleeper() = default;
  [[nodiscard]] virtual Instant now() = 0;
  virtual Woken sleep(Watch watch, Instant deadline) = 0;
  // Ends the present sleep, or the next, until it is taken. Any thread.
  virtual void ring() = 0;
  // False: nothing was there to take.
  virtual bool take_ring() = 0;
  // Lets whoever waits for this core have it.
  virtual void yield() = 0;
};

// Of the links whose peers ring for what they send, which is rings in shared memory. Called under the lane's lock.
class Doorbells {
 public:
  virtual ~Doorbells() = default;
  // From now on peers ring. False: something is there already.
  [[nodiscard]] virtual bool request() = 0;
  virtual void suppress() = 0;
  // Tells peers that somebody looks without being rung for, which spares them even the look whether to ring
  // (docs/adr/0011), and that it is over.
  virtual void announce_polling() = 0;
  virtual void end_polling() = 0;
};

// What the thread does. serve(), look() and publish() are called under the lane's lock.
class Duty {
 public:
  struct Served {
    bool received = false;
    Instant now;       // of the last look
    Instant deadline;  // when to serve again
  };
  virtual ~Duty() = default;
  // Makes progress until nothing is left to do. `arrivals`: as in Sleeper::Woken.
  virtual Served serve(std::span<const int> arrivals) = 0;
  // Looks once at what has come, as a program does that polls, and answers it. Whether there was something.
  virtual bool look() = 0;
  // Now and then while the thread stands by.
  virtual void publish(Instant now) = 0;
  // A descriptor other than a link's is readable. Without the lock.
  virtual void handle_control() = 0;
};

//                        kick, doorbell, socket, timer, control
//                     ┌───────────────────────────────────────────┐
//                     ▼                                           │
//   ┌─────────────────────────┐  doorbells requested, last look ┌─┴──────────────────────────┐
//   │ serving: Duty::serve()  ├────────────────────────────────►│ asleep until the deadline  │
//   └──────┬──────────────────┘  (something there: serve again) │ 33rd call of the program:  │
//          │          ▲                                         │ doorbells suppressed, kick │
//          │ 8 wake-  │ kick, control, stop;                    └────────────────────────────┘
//          │ ups in   │ fewer calls than one in 50 us;
//          │ a row    │ or nobody has called for 50 us
//          │ beside   │ and something lay there: then the
//          │ a program│ next try comes later, and later
//          │ that     │ again (1 ms .. 1 s)
//          ▼ calls    │
//   ┌─────────────────┴───────┐  Links and timers are the program's. Peers are told that somebody polls, so
//   │ standing by: a tick     │  they do not ring. Never on a machine with one core: there a program that
//   │ after 100 us, then      │  polls keeps whoever could answer it from running, and the wake-ups of the
//   │ every 500 us            │  thread are what changes that.
//   └─────────────────────────┘
//
// Attending: after serving, beside a program that sleeps by events and whose messages come close behind one another, the
// thread looks on for up to 50 us before it sleeps (attention.h): it yields, looks, and yields again.
//
// The kick: whoever needs the thread sets `kicked_` and, if it was not set, rings. The thread takes the ring, then clears
// the flag, then serves: a kick that comes in between is served by that. Who kicks: a program that goes
// to sleep beside a thread that would not hear (rely_on_thread), a call that brought an earlier deadline than the thread
// sleeps until, the call that suppressed the doorbells, and whoever stops the thread.
//
// The delayed ACK: the answer to a message may wait for the program's reply while somebody is sure to look soon: the thread
// itself, a thread that stands by, or one that wakes within 100 us, which it does beside a program that replies.
class WakeUp {
 public:
  WakeUp(LaneLock& lock, Sleeper& sleeper, bool one_core)
      : lock_(lock), sleeper_(sleeper), one_core_(one_core) {}
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  // Before the first turn, and only where a link has some. They outlive this.
  void set_doorbells(Doorbells* doorbells) { doorbells_ = doorbells; }

  // ---- What the lane tells. REQUIRES: the lane's lock.
  enum class Caller : std::uint8_t { kProgram, kThread };
  void note_post(Instant now) {
    note_call();
    last_call_ns_.store(now.ns, std::memory_order_relaxed);
    answers_.note_post(now);
  }
  // The program polls; `quiet`: a few loads have told that nothing has come. False: that is enough for
  // this time, to ask the clock and the kernel would cost more.
  [[nodiscard]] bool note_poll(bool quiet) {
    note_call();
    if (quiet && ++looks_spared_ < kLooksSpared) return false;
    looks_spared_ = 0;
    return true;
  }
  // Whether the program has said since this was asked last that it may sleep.
  [[nodiscard]] bool take_arming() {
    if (!armed_.load(std::memory_order_relaxed)) return false;
    armed_.store(false, std::memory_order_relaxed);
    return true;
  }
  // The program looks at links and timers.
  void note_look(Instant now) {
    last_look_ = now;
    last_call_ns_.store(now.ns, std::memory_order_relaxed);
  }
  // Whether one that posts is to look as well: it has not polled for long, and the thread leaves links to who calls.
  [[nodiscard]] bool take_look(Instant now) {
    if (now - last_look_ < kLooksApart) [[likely]]
      return false;
    note_look(now);
    return true;
  }
  // A look is over; `message`: one has come for the program. Whether what is to be sent may wait for its reply.
  [[nodiscard]] bool note_arrivals(bool message, Instant now, Caller caller);
  // Nothing waits for a reply any more.
  void give_up_reply() { answers_.give_up(); }
  // Whether the thread would sleep longer than that.
  [[nodiscard]] bool sleeps_beyond(Instant deadline) const {
    return deadline < wakes_at_ && !standing_by() && !attending();
  }
  // When the lane wants to be called next, after a call of the program, which may sleep afterwards.
  void note_deadline(Instant deadline);

  // ---- What anybody may do.
  // For a program that goes to sleep until an event: the thread takes over.
  void rely_on_thread() {
    armed_.store(true, std::memory_order_relaxed);
    armings_.fetch_add(1);
    lock_.hurry();
    if (attending_.load()) return;  // it looks, and requests doorbells before it sleeps
    if (standing_by() || !doorbells_requested_.load()) kick();
  }
  void kick();
  [[nodiscard]] bool standing_by() const { return standing_by_.load(std::memory_order_relaxed); }
  // The thread looks at the links all the time.
  [[nodiscard]] bool attending() const { return attending_.load(std::memory_order_relaxed); }

  // ---- The thread.
  // Serves, then sleeps once; or one tick of standing by. False: it was stopped.
  [[nodiscard]] bool turn(Duty& duty);
  // Any thread.
  void stop();

 private:
  static constexpr int kLooksSpared = 8;
  static constexpr int kCallsWhileRequested = 32;
  static constexpr unsigned kWakeupsBeforeStandBy = 8;
  static constexpr Duration kReplyWatch = microseconds(100);
  static constexpr Duration kFirstTick = microseconds(100);
  static constexpr Duration kTick = microseconds(500);
  // Who calls more seldom hardly polls. A call may take long by itself: to send 64 KiB takes 13 us.
  static constexpr Duration kBetweenCalls = microseconds(50);
  // A program that polls or posts calls again sooner, unless another has its core.
  static constexpr Duration kTardy = microseconds(50);
  static constexpr Duration kLooksApart = milliseconds(1);
  static constexpr Duration kShortStay = milliseconds(10);
  static constexpr Duration kPauseMin = milliseconds(1);
  static constexpr Duration kPauseMax = seconds(1);

  // Who calls a few times and then sleeps needs the doorbell; who goes on does not, but then the thread must know
  // that nobody will ring. Who posts all the time will poll, too: its queue has an end.
  void note_call() {
    calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (doorbells_requested_.load(std::memory_order_relaxed) &&
        ++calls_while_requested_ > kCallsWhileRequested)
      outgrow_doorbells();
  }
  void outgrow_doorbells();
  [[nodiscard]] bool holds_answers(Instant now, Caller caller) const;

  void take_kick();
  [[nodiscard]] Duty::Served serve(Duty& duty);
  void sleep(Instant deadline);
  void attend(Duty& duty);
  [[nodiscard]] bool called_away(unsigned looks);
  [[nodiscard]] bool look(Duty& duty);
  [[nodiscard]] bool armed_again();
  [[nodiscard]] bool request_doorbells();
  void suppress_doorbells();
  enum class End : std::uint8_t { kCalledAway, kNeeded };
  void begin_stand_by();
  void end_stand_by(End why);
  void tick(Duty& duty);
  [[nodiscard]] bool program_is_calling(Duty& duty);

  LaneLock& lock_;
  Sleeper& sleeper_;
  Doorbells* doorbells_ = nullptr;
  const bool one_core_;

  // Under the lock.
  DelayedAck answers_;
  Instant wakes_at_ = kNever;  // the thread, by itself
  Instant last_look_;          // of the program
  int calls_while_requested_ = 0;
  int looks_spared_ = 0;

  // Of all.
  std::atomic<bool> doorbells_requested_{false};  // changes under the lock
  std::atomic<std::uint64_t> calls_{0};           // of the program; changes under the lock
  std::atomic<std::int64_t> last_call_ns_{0};     // but for polls that only read memory
  std::atomic<bool> standing_by_{false};
  std::atomic<bool> attending_{false};
  std::atomic<bool> armed_{false};         // by who may sleep
  std::atomic<std::uint32_t> armings_{0};  // by who may sleep, in all
  std::atomic<bool> stopping_{false};
  std::atomic<bool> kicked_{false};

  // Of the thread.
  std::vector<int> arrivals_;
  bool control_ready_ = true;
  Attention attention_;
  std::uint32_t armings_seen_ = 0;
  std::uint64_t calls_seen_ = 0;
  unsigned wakeups_ = 0;  // in a row, of a program that polls
  Duration tick_ = kFirstTick;
  Instant stands_by_since_;
  Duration pause_ = kPauseMin;  // after standing by in vain
  Instant not_before_{};        // when to try next
};

}  // namespace rrdma::nic
