// Lanes: the lanes of a process, the assignment of QPs to them, and what all of them read: the memory table.
//
// A QP joins the lane whose QPs already use its completion queues. For new queues it takes the lane with the
// fewest queues. One more lane is opened if every lane has some and there are fewer lanes than cores. So a
// thread with queues of its own contends with no other. QPs that share more than queues stay in the first
// lane: shared receive queues, XRC, datagrams with their address handles and groups.
//
// Threads: any. Lockable: takes the locks of all lanes, for changes to what every lane reads. Lock order: the
// roster's mutex, then the lanes in order of creation. A holder of one lane's lock takes no other lane's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include "base/problem.h"
#include "base/result.h"
#include "nic/lane/lanes_of_queue.h"
#include "nic/links/lane_interface.h"
#include "nic/memory/memory_kinds.h"
#include "nic/settings.h"
#include "objects/memory.h"

namespace rrdma::nic {

class Lane;
class ProcessControl;

// Descriptors of the daemon client, a lane and its links (16 of them are UDP source ports), and some
// temporary ones.
inline constexpr unsigned kDescriptorsOfLane = 40;

// The number of lanes that a process may have: one for each core, fewer if its descriptor limit is low. One
// if packets are captured to a file or faults are injected from the start, which requires a single order.
[[nodiscard]] std::size_t lanes_allowed(const Settings& settings);

class Lanes {
 public:
  // Opens the first lane, whose thread also serves `control`. The settings and the control must outlive this
  // object.
  [[nodiscard]] static Result<std::unique_ptr<Lanes>, Problem> open(const Settings& settings,
                                                                    ProcessControl& control,
                                                                    LaneInterface interface);
  ~Lanes();

  [[nodiscard]] Lane& first() const;
  // The lane that owns the number; the first lane if none does.
  [[nodiscard]] Lane& of(wire::Qpn qpn) const;
  // REQUIRES: as its header says.
  [[nodiscard]] objects::MemoryTable& memory() { return memory_; }
  // Prepares memory for registration and returns the number of its kind in the table. REQUIRES: all locks.
  [[nodiscard]] std::uint8_t kind_of(const MemoryOrigin& origin) { return kinds_.prepare(origin, memory_); }
  void set_qp_listener(QpListener* listener);

  // The completion queues of a future QP; null: none. `free`: it may go to any lane.
  struct Wish {
    LanesOfQueue* send = nullptr;
    LanesOfQueue* receive = nullptr;
    bool free = false;
  };
  // Chooses its lane and records it in the queues.
  [[nodiscard]] Lane& assign(const Wish& wish);
  // The lane with this number, if the assigned one has no QPN left. Null if there is none, or the QP may not
  // go there.
  [[nodiscard]] Lane* assign_number(const Wish& wish, std::size_t number);
  // The queue is destroyed.
  void release(const LanesOfQueue& queue);

  void lock();
  void unlock();
  // Returns when every lane has released its lock since the call: no access from before the call is still in
  // progress. REQUIRES: no lane's lock.
  void pass_through();

  template <typename F>
  void for_each(F visit) const {
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) visit(*lanes_[i]);
  }

 private:
  Lanes(const Settings& settings, ProcessControl& control, LaneInterface interface);
  [[nodiscard]] std::size_t size() const { return count_.load(std::memory_order_acquire); }
  Result<void, Problem> open_one();
  Result<void, Problem> start(Lane& lane, bool serves_control);
  [[nodiscard]] Lane& least_used();
  void attach(const Wish& wish, Lane& lane);
  void lock_all();
  void unlock_all();

  const Settings& settings_;
  ProcessControl& control_;
  const LaneInterface interface_;
  const std::size_t allowed_;
  LentMutex windows_;
  MemoryKinds kinds_;
  objects::MemoryTable memory_;
  QpListener* qp_listener_ = nullptr;
  std::mutex roster_;
  bool exhausted_ = false;  // no more could be opened
  std::atomic<std::size_t> count_{0};
  std::array<std::unique_ptr<Lane>, kLanesMax> lanes_;
};

}  // namespace rrdma::nic
