// WakeUp: decides which thread polls the links of a lane, and which one is woken for it. The program polls
// whenever it posts or polls. The lane's thread polls for passive targets of READ and WRITE, for programs
// that sleep in a completion channel, and for timers. Waking it for every packet would take the core from a
// program that polls by itself; not waking it would leave a sleeping program waiting.
//
// This class owns all state of this decision for one lane, and nothing else. Time is an argument or the
// Sleeper's, the thread's work is its Duty, and peers wake it through Doorbells. So the protocol can be
// tested in virtual time.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/instant.h"
#include "nic/wakeup/attention.h"
#include "nic/wakeup/delayed_ack.h"
#include "nic/wakeup/lane_lock.h"

namespace rrdma::nic {

// The means by which the thread sleeps, and its clock. In a process: epoll (lane_thread.h).
class Sleeper {
 public:
  enum class Watch : std::uint8_t { kEverything, kAllButLinks };
  struct Woken {
    bool by_event = false;  // not by the deadline
    bool by_control = false;
    std::span<const int> links;  // descriptors with arrivals; valid until the next sleep
  };
  virtual ~Sleeper() = default;
  [[nodiscard]] virtual Instant now() = 0;
  virtual Woken sleep(Watch watch, Instant deadline) = 0;
  // Ends the current or next sleep, until it is taken. Any thread.
  virtual void ring() = 0;
  // False if there was no ring to take.
  virtual bool take_ring() = 0;
  // Yields this core to a waiting thread.
  virtual void yield() = 0;
};

// Doorbells of links whose peers signal what they send: the rings in shared memory. Called under the lane's
// lock.
class Doorbells {
 public:
  virtual ~Doorbells() = default;
  // From now on peers ring. False if something has already arrived.
  [[nodiscard]] virtual bool request() = 0;
  virtual void suppress() = 0;
  // announce_polling() tells peers that a thread polls, which saves them even the check whether to ring
  // (docs/adr/0011). end_polling() ends this.
  virtual void announce_polling() = 0;
  virtual void end_polling() = 0;
};

// The work of the thread. serve(), look() and publish() are called under the lane's lock.
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
  // Polls once, as a polling program does, and answers. True if something had arrived.
  virtual bool look() = 0;
  // Called now and then while the thread stands by.
  virtual void publish(Instant now) = 0;
  // A descriptor other than a link's is readable. Called without the lock.
  virtual void handle_control() = 0;
};

//                        kick, doorbell, socket, timer, control
//                     ┌───────────────────────────────────────────┐
//                     ▼                                           │
//   ┌─────────────────────────┐  doorbells requested, last poll ┌─┴──────────────────────────┐
//   │ serving: Duty::serve()  ├────────────────────────────────►│ asleep until the deadline  │
//   └──────┬──────────────────┘  (something there: serve again) │ 33rd call of the program:  │
//          │          ▲                                         │ doorbells suppressed, kick │
//          │ 8 wake-  │ kick, control, stop;                    └────────────────────────────┘
//          │ ups in   │ fewer than one call in 50 us; or
//          │ a row    │ no call for 50 us although
//          │ beside   │ something had arrived. The next
//          │ a program│ attempt then comes later, with
//          │ that     │ growing intervals (1 ms .. 1 s)
//          ▼ calls    │
//   ┌─────────────────┴───────┐  The program handles links and timers. Peers are told that a thread polls,
//   │ standing by: a tick     │  so they do not ring. Never used on a machine with one core: there a polling
//   │ after 100 us, then      │  program keeps the thread that could answer it from running, and only the
//   │ every 500 us            │  wake-ups of the lane's thread change that.
//   └─────────────────────────┘
//
// Attending: after serving a program that sleeps on events and whose messages arrive in close succession, the
// thread polls for up to 50 us before it sleeps (attention.h). It yields, polls, and yields again.
//
// The kick: a caller that needs the thread sets `kicked_` and, if it was not set, rings. The thread takes the
// ring, clears the flag, and then serves: a kick in between is covered by that service. These kick: a program
// that goes to sleep while the thread would not notice arrivals (rely_on_thread), a call that brought an
// earlier deadline than the thread's, the call that suppressed the doorbells, and stop().
//
// The delayed ACK: the answer to a message may wait for the program's reply while some thread is certain to
// poll soon. That is the lane's thread itself, a thread that stands by, or one that wakes within 100 us, as
// it does beside a program that replies.
class WakeUp {
 public:
  WakeUp(LaneLock& lock, Sleeper& sleeper, bool one_core)
      : lock_(lock), sleeper_(sleeper), one_core_(one_core) {}
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;
  // Call before the first turn, and only if a link has doorbells. They must outlive this object.
  void set_doorbells(Doorbells* doorbells) { doorbells_ = doorbells; }

  // ---- Reports of the lane. REQUIRES: the lane's lock. ----
  enum class Caller : std::uint8_t { kProgram, kThread };
  void note_post(Instant now) {
    note_call();
    last_call_ns_.store(now.ns, std::memory_order_relaxed);
    answers_.note_post(now);
  }
  // The program polls. `quiet`: a few loads have shown that nothing has arrived. False: stop here, because
  // reading the clock and asking the kernel would cost more.
  [[nodiscard]] bool note_poll(bool quiet) {
    note_call();
    if (quiet && ++looks_spared_ < kLooksSpared) return false;
    looks_spared_ = 0;
    return true;
  }
  // True if the program has announced since the last call that it may sleep.
  [[nodiscard]] bool take_arming() {
    if (!armed_.load(std::memory_order_relaxed)) return false;
    armed_.store(false, std::memory_order_relaxed);
    return true;
  }
  // The program polls links and timers.
  void note_look(Instant now) {
    last_look_ = now;
    last_call_ns_.store(now.ns, std::memory_order_relaxed);
  }
  // True if a post must poll as well: the program has not polled for long, and the thread leaves the links to
  // a caller.
  [[nodiscard]] bool take_look(Instant now) {
    if (now - last_look_ < kLooksApart) [[likely]]
      return false;
    note_look(now);
    return true;
  }
  // A poll is over. `message`: one has arrived for the program. True if answers may wait for its reply.
  [[nodiscard]] bool note_arrivals(bool message, Instant now, Caller caller);
  // Nothing waits for a reply any more.
  void give_up_reply() { answers_.give_up(); }
  // The thread sleeps until an event or a time.
  [[nodiscard]] bool thread_sleeps() const { return !standing_by() && !attending(); }
  // True if the thread would sleep longer than that.
  [[nodiscard]] bool sleeps_beyond(Instant deadline) const { return deadline < wakes_at_ && thread_sleeps(); }
  // When the lane must be called next, after a call of the program, which may sleep afterwards.
  void note_deadline(Instant deadline);

  // ---- For any thread. ----
  // For a program that goes to sleep until an event: the thread takes over.
  void rely_on_thread() {
    armed_.store(true, std::memory_order_relaxed);
    armings_.fetch_add(1);
    lock_.hurry();
    if (attending_.load()) return;  // it polls, and requests doorbells before it sleeps
    if (standing_by() || !doorbells_requested_.load()) kick();
  }
  void kick();
  [[nodiscard]] bool standing_by() const { return standing_by_.load(std::memory_order_relaxed); }
  // The thread polls the links continuously.
  [[nodiscard]] bool attending() const { return attending_.load(std::memory_order_relaxed); }

  // ---- For the lane's thread. ----
  // Serves, then sleeps once; or one tick of standing by. False if it was stopped.
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
  // Calling less often than this is not polling. A call may itself take long: sending 64 KiB takes 13 us.
  static constexpr Duration kBetweenCalls = microseconds(50);
  // A program that polls or posts calls again sooner, unless another thread has its core.
  static constexpr Duration kTardy = microseconds(50);
  static constexpr Duration kLooksApart = milliseconds(1);
  static constexpr Duration kShortStay = milliseconds(10);
  static constexpr Duration kPauseMin = milliseconds(1);
  static constexpr Duration kPauseMax = seconds(1);

  // A program that calls a few times and then sleeps needs the doorbell. One that continues does not, but
  // then the thread must know that no peer will ring. One that only posts will poll, too, because its queue
  // is finite.
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
  Instant wakes_at_ = kNever;  // when the thread wakes by itself
  Instant last_look_;          // by the program
  int calls_while_requested_ = 0;
  int looks_spared_ = 0;

  // Shared by all threads.
  std::atomic<bool> doorbells_requested_{false};  // changes under the lock
  std::atomic<std::uint64_t> calls_{0};           // by the program; changes under the lock
  std::atomic<std::int64_t> last_call_ns_{0};     // except for polls that only read memory
  std::atomic<bool> standing_by_{false};
  std::atomic<bool> attending_{false};
  std::atomic<bool> armed_{false};         // by threads that may sleep
  std::atomic<std::uint32_t> armings_{0};  // by threads that may sleep, in total
  std::atomic<bool> stopping_{false};
  std::atomic<bool> kicked_{false};

  // Owned by the thread.
  std::vector<int> arrivals_;
  bool control_ready_ = true;
  Attention attention_;
  std::uint32_t armings_seen_ = 0;
  std::uint64_t calls_seen_ = 0;
  unsigned wakeups_ = 0;  // in a row, beside a program that polls
  Duration tick_ = kFirstTick;
  Instant stands_by_since_;
  Duration pause_ = kPauseMin;  // after standing by in vain
  Instant not_before_{};        // when to try next
};

}  // namespace rrdma::nic
