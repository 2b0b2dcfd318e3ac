// Lanes: the lanes of a process, which of them a QP goes to, and what all of them read: the memory table.
//
// A QP goes where the QPs are that report to its completion queues already; the first QP of queues that no lane has takes
// the lane with the fewest queues, and one more lane is opened while each has some and there are fewer lanes than cores. A
// thread that has its own queues so meets others in no lock. What several QPs share beyond queues stays in the first
// lane: shared receive queues, XRC, datagrams with their address handles and groups.
//
// Threads: any. Lockable: the locks of all lanes at once, for whoever changes what every lane reads. Order: the mutex of
// the roster, then the lanes in the order of their birth; who holds a lane's lock takes no other lane's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include "base/problem.h"
#include "base/result.h"
#include "nic/lane/lane_interface.h"
#include "nic/lane/lanes_of_queue.h"
#include "nic/settings.h"
#include "objects/memory.h"

namespace rrdma::nic {

class HostLane;
class ProcessControl;

// Of the daemon's client, a lane and its links (16 of them are UDP ports to send from), and some in passing.
inline constexpr unsigned kDescriptorsOfLane = 40;

// How many lanes a process may have: as many as it has cores, less where its limit of descriptors is low; one where
// packets are written to a file or disturbed from the beginning, which is done in one order.
[[nodiscard]] std::size_t lanes_allowed(const Settings& settings);

class Lanes {
 public:
  // Opens the first, whose thread serves `control` too. The settings and the control outlive this.
  [[nodiscard]] static Result<std::unique_ptr<Lanes>, Problem> open(const Settings& settings,
                                                                    ProcessControl& control,
                                                                    LaneInterface interface);
  ~Lanes();

  [[nodiscard]] Lane& first() const;
  // The one that the number is of; the first for a number of nobody's.
  [[nodiscard]] Lane& of(wire::Qpn qpn) const;
  // REQUIRES: as its header says.
  [[nodiscard]] objects::MemoryTable& memory() { return memory_; }
  void set_qp_listener(QpListener* listener);

  // The completion queues of a QP that is to be; null: it has none. `free`: it may go to any lane.
  struct Wish {
    LanesOfQueue* send = nullptr;
    LanesOfQueue* receive = nullptr;
    bool free = false;
  };
  // The lane for it, which its queues know from now on.
  [[nodiscard]] Lane& assign(const Wish& wish);
  // The one of this number, where that one has no QPN left; null: there is none, or it may not go there.
  [[nodiscard]] Lane* assign_number(const Wish& wish, std::size_t number);
  // The queue is destroyed.
  void release(const LanesOfQueue& queue);

  void lock();
  void unlock();
  // Returns when every lane has given back its lock: nobody is amid what it was doing at the call. REQUIRES: none of them.
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
  Result<void, Problem> start(HostLane& lane, bool serves_control);
  [[nodiscard]] Lane& least_used();
  void attach(const Wish& wish, Lane& lane);
  void lock_all();
  void unlock_all();

  const Settings& settings_;
  ProcessControl& control_;
  const LaneInterface interface_;
  const std::size_t allowed_;
  LentMutex windows_;
  objects::MemoryTable memory_;
  QpListener* qp_listener_ = nullptr;
  std::mutex roster_;
  bool exhausted_ = false;  // no more could be opened
  std::atomic<std::size_t> count_{0};
  std::array<std::unique_ptr<HostLane>, kLanesMax> lanes_;
};

}  // namespace rrdma::nic
