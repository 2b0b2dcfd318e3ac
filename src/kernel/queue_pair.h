// QueuePair: a QP of the kernel's device in this process: the engine's QP, its rings, and the moves between
// them.
//
// Threads: everything under the lock of the lane.
#pragma once

#include <map>

#include "base/instant.h"
#include "kernel/queues.h"
#include "kernel/regions.h"
#include "transport/engine.h"

namespace rrdma::kernel {

inline constexpr std::size_t kRoutesMax = 4096;  // of a datagram QP

struct QueuePair {
  QueuePair(const Channel& channel, std::uint32_t of, const rrdma_create_qp& form, std::uint32_t grant_key);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  [[nodiscard]] bool valid() const { return sends && (shared != nullptr || receives.valid()); }

  // A send or a receive has completed: its slot is the program's again.
  void note_completion(bool receive);
  // The consumer index of its queue then.
  [[nodiscard]] std::uint32_t consumer_after(bool receive) const;

  // The route of the next send, if it is a datagram to a destination without a handle yet. After
  // take_sends().
  [[nodiscard]] const DatagramRoute* unknown_route() const;
  // Takes the address; another one may go for it.
  void learn(const DatagramRoute& route, objects::AddressHandle& address);
  // Moves send requests from the ring to the engine, up to a datagram with an unknown route. A malformed
  // request fails the QP.
  void take_sends(transport::Engine& engine, Regions& regions, Instant now);
  // The QP was reset: nothing in its rings completes any more.
  void reset();
  // Of a QP in the error state: receives that came since flush, too.
  void flush_receives(transport::Engine& engine, Instant now);

  const std::uint32_t handle;
  const std::uint32_t pd;
  const bool datagram;
  const QueueLimits limits;  // of sends
  SharedRing sends;
  Receives receives;  // not valid: shared
  SharedReceives* shared = nullptr;
  Completions* send_cq = nullptr;
  Completions* receive_cq = nullptr;
  std::uint32_t send_cq_handle = 0, receive_cq_handle = 0, shared_handle = 0;
  transport::QueuePair* engine_qp = nullptr;
  std::map<DatagramRoute, objects::AddressHandle*> addresses;  // UD; we own them

 private:
  enum class Outcome : std::uint8_t { kPosted, kRefused };
  [[nodiscard]] bool load_next();
  Outcome post(transport::Engine& engine, Regions& regions, Instant now);
  Outcome register_fast(transport::Engine& engine, const Regions& regions, const RxeSend& send, Instant now);
  void fail(transport::Engine& engine, std::uint64_t wr_id, Instant now);

  std::uint32_t taken_ = 0;       // index of the next send to take
  std::uint32_t not_posted_ = 0;  // sends that never were in the engine's queue
  std::uint32_t first_ = 0;       // index of the first send
  SlotCopy slot_{};               // the send at taken_
  DatagramRoute waiting_route_;   // of it
  bool waits_ = false;            // it is a datagram to a destination without a handle
};

}  // namespace rrdma::kernel
