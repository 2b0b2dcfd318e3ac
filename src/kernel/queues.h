// The queues that several QPs may share: completion queues and shared receive queues. The engine has its own
// queues; these objects move requests and completions between them and the rings.
//
// Threads: everything under the lock of the lane.
#pragma once

#include <cstdint>
#include <functional>

#include "kernel/channel.h"
#include "kernel/shared_ring.h"
#include "kernel/work_requests.h"
#include "objects/completion_queue.h"
#include "objects/work_queue.h"

namespace rrdma::kernel {

struct QueuePair;

// A completion queue. The engine's queue is always armed, and empty when the lock is released: each
// completion goes to the ring at once.
class Completions final : private objects::CompletionListener {
 public:
  // `qp_of` finds the QP of a completion; null: it is gone. The channel must outlive this object.
  using FindQp = std::function<QueuePair*(wire::Qpn)>;
  Completions(const Channel& channel, const rrdma_queue_form& form, FindQp qp_of);

  [[nodiscard]] bool valid() const { return static_cast<bool>(ring_); }
  [[nodiscard]] objects::CompletionQueue& queue() { return queue_; }
  // After the completions of several packets: raises the event that is due.
  void drain();

  // Goes on in another ring, with what is in this one. Returns an errno, negative.
  [[nodiscard]] int resize(const rrdma_resize& form);

  std::uint32_t users = 0;  // QPs

 private:
  void on_completion(objects::CompletionQueue& queue) override;
  void on_overflow(objects::CompletionQueue& queue) override;
  // False: the ring is full.
  bool put(const objects::Completion& completion);

  const Channel& channel_;
  const std::uint32_t handle_;
  const FindQp qp_of_;
  SharedRing ring_;
  std::uint32_t producer_ = 0;
  bool lost_ = false;  // the ring overflowed
  objects::CompletionQueue queue_;
};

// Receive requests: of a QP or shared. The program posts without a doorbell, so the engine's queue asks for
// more when a message finds it empty.
class Receives final : public objects::ReceiveSource {
 public:
  Receives(const Channel& channel, const rrdma_ring_form& form, const QueueLimits& limits)
      : ring_(channel, form), limits_(limits), taken_(ring_ ? ring_.consumer() : 0), consumer_(taken_) {}

  [[nodiscard]] bool valid() const { return static_cast<bool>(ring_); }
  [[nodiscard]] std::uint32_t slots() const { return ring_.slots(); }
  void refill(objects::ReceiveQueue& queue) override;
  // The next request in the ring, for a queue that flushes. False if there is none.
  [[nodiscard]] bool take(ParsedReceive& to);
  // One of them has completed.
  void complete() { ring_.set_consumer(++consumer_); }
  // The consumer index then.
  [[nodiscard]] std::uint32_t consumer_after() const { return consumer_ + 1; }
  // None of them completes any more.
  void drop() { ring_.set_consumer(consumer_ = taken_ = ring_.producer()); }

 private:
  SharedRing ring_;
  const QueueLimits limits_;
  std::uint32_t taken_;
  std::uint32_t consumer_;
};

struct SharedReceives final : private objects::LimitListener {
  SharedReceives(const Channel& channel, const rrdma_queue_form& form, const QueueLimits& limits,
                 objects::ProtectionDomain& pd);

  [[nodiscard]] bool valid() const { return receives.valid(); }

  const Channel& channel;
  const std::uint32_t handle;
  Receives receives;
  objects::ReceiveQueue queue;
  std::uint32_t users = 0;  // QPs

 private:
  void on_limit(objects::ReceiveQueue& of) override;
};

}  // namespace rrdma::kernel
