// CompletionQueue: completed work, in order. One producer and one consumer at a time; they never wait for
// each other. The producer is the engine, under its lane's lock. If QPs of several lanes report to one queue,
// it holds a lock lent to the queue. The consumer is the poller, under the consumer lock, which the queue's
// owner keeps. Overflow poisons the queue, as on hardware: completions are lost, the listener gets an event,
// and further completions are discarded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "objects/cause.h"
#include "objects/exclusion.h"
#include "objects/held_events.h"
#include "wire/gid.h"
#include "wire/numbers.h"

namespace rrdma::objects {

// Values of ibv_wc_status.
enum class Status : std::uint8_t {
  kSuccess = 0,
  kLocalLengthError = 1,
  kLocalQpOperationError = 2,
  kLocalEecOperationError = 3,
  kLocalProtectionError = 4,
  kFlushed = 5,
  kWindowBindError = 6,
  kBadResponse = 7,
  kLocalAccessError = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccessError = 10,
  kRemoteOperationError = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kLocalRddViolation = 14,
  kRemoteInvalidRdRequest = 15,
  kRemoteAborted = 16,
  kInvalidEecn = 17,
  kInvalidEecState = 18,
  kFatal = 19,
  kResponseTimeout = 20,
  kGeneralError = 21,
};
std::string_view describe(Status status);

// Values of ibv_wc_opcode.
enum class CompletionOpcode : std::uint8_t {
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindWindow = 5,
  kLocalInvalidate = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kReceive = 128,
  kReceiveWriteImmediate = 129,
};

// Bits of ibv_wc_flags.
inline constexpr std::uint8_t kWithGrh = 1u << 0;
inline constexpr std::uint8_t kWithImmediate = 1u << 1;
inline constexpr std::uint8_t kWithInvalidate = 1u << 3;

struct Completion {
  std::uint64_t wr_id = 0;
  Status status = Status::kSuccess;
  CompletionOpcode opcode = CompletionOpcode::kSend;
  std::uint8_t flags = 0;
  bool solicited = false;  // counts for a solicited-only arm
  std::uint32_t byte_length = 0;
  std::uint32_t immediate_or_key = 0;  // wire::Immediate::raw, or the invalidated rkey
  wire::Qpn qpn;
  wire::Qpn source_qpn;  // UD
  std::uint32_t vendor_err = 0;
  std::int64_t timestamp_ns = 0;
  std::uint8_t service_level = 0;  // UD: the packet type of the datagram (transport/unreliable/datagram.cc)
};

class CompletionQueue;
class CompletionListener {
 public:
  virtual ~CompletionListener() = default;
  // The queue was armed and a matching completion was added. Called by the producer.
  virtual void on_completion(CompletionQueue& queue) = 0;
  virtual void on_overflow(CompletionQueue& queue) = 0;
};

class CompletionQueue {
 public:
  static constexpr std::uint32_t kEntriesMax = 1u << 22;

  // REQUIRES: 1 <= entries <= kEntriesMax. The listener may be null and must outlive the queue. Without
  // events it hears only of an overflow, and a completion costs less.
  CompletionQueue(std::uint32_t entries, CompletionListener* listener, bool raises_events = true);

  // Producer. Its events may be held (held_events.h).
  void push(const Completion& completion, HeldEvents* held = nullptr) {
    if (producers_ == nullptr) return add(completion, held);
    const Excluded others(producers_);
    add(completion, held);
  }
  // An event that was held.
  void raise_event() { listener_->on_completion(*this); }
  // Allows several concurrent producers from now on. REQUIRES: none is active; the lock outlives the queue.
  void expect_producers(Exclusion& lock) { producers_ = &lock; }

  // Consumer. Returns the number of completions written.
  std::size_t poll(std::span<Completion> out);
  // Consumer, in place: the oldest completion or null; then call pop().
  [[nodiscard]] const Completion* peek() const;
  // Any thread, without the consumer lock. After arm(), a completion that this call misses raises an event.
  [[nodiscard]] bool is_empty() const {
    return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_relaxed);
  }
  void pop();
  // The next matching completion raises one event. Completions already queued do not count.
  void arm(bool solicited_only);

  [[nodiscard]] bool is_armed() const { return armed_.load(std::memory_order_relaxed) != kIdle; }

  // REQUIRES: neither a producer nor a consumer is active. False if the queued completions would not fit.
  bool resize(std::uint32_t entries);
  // Removes the completions of a destroyed QP. REQUIRES: neither its lane nor a consumer is active.
  void purge(wire::Qpn qpn);

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::size_t size() const {
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool overflowed() const { return overflowed_.load(std::memory_order_relaxed); }

  std::atomic<std::uint32_t> users{0};  // QPs that report here

 private:
  void add(const Completion& completion, HeldEvents* held);
  enum : std::uint8_t { kIdle, kArmedSolicited, kArmed };
  std::uint32_t capacity_;
  std::uint32_t mask_;
  std::unique_ptr<Completion[]> ring_;
  CompletionListener* listener_;
  bool raises_events_;
  Exclusion* producers_ = nullptr;  // null: one producer at a time
  std::atomic<bool> overflowed_{false};
  std::atomic<std::uint8_t> armed_{kIdle};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<std::uint64_t> head_{0};
};

}  // namespace rrdma::objects
