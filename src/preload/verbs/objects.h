// The objects behind the structs of verbs.h. Each derives from the struct that the program holds, and own()
// converts back. REQUIRES of every own(): the object's context is ours.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <memory>

#include "base/intrusive_list.h"
#include "nic/process/passage.h"
#include "nic/wakeup/idle_polls.h"
#include "nic/wakeup/lane_lock.h"
#include "objects/completion_queue.h"
#include "objects/memory.h"
#include "objects/work_queue.h"
#include "preload/verbs/device/context.h"
#include "preload/verbs/queues/completion_clock.h"
#include "transport/engine.h"

namespace rrdma::verbs {

struct ThreadDomain : ibv_td {
  std::atomic<std::uint32_t> users{0};
};

struct Pd : ibv_pd {
  objects::ProtectionDomain domain;
  // A parent domain refers to another domain and may add a thread domain.
  Pd* original = nullptr;
  ThreadDomain* thread_domain = nullptr;
  std::uint32_t parent_users = 0;  // parent domains of this one; guarded by the locks of all lanes

  // The domain that memory keys and QPs are checked against.
  [[nodiscard]] objects::ProtectionDomain& root() { return original != nullptr ? original->domain : domain; }
};

struct Mr : ibv_mr {
  objects::MemoryRegion* region = nullptr;
  struct DeviceMemory* device_memory = nullptr;
  void* mapped = nullptr;  // a dmabuf's mapping, which we must unmap
  std::size_t mapped_octets = 0;
};

struct DeviceMemory : ibv_dm {
  std::uint8_t* data = nullptr;
  std::size_t length = 0;
  std::atomic<std::uint32_t> users{0};  // regions
};

struct Mw : ibv_mw {
  objects::MemoryWindow* window = nullptr;
};

struct Channel;

struct Cq : ibv_cq_ex, private objects::CompletionListener {
  Cq(std::uint32_t entries, Context& owner, Channel* events);

  const nic::Runtime& runtime;
  nic::Lanes& all_lanes;
  Channel* const notifications;  // may be null
  nic::LaneLock consumer;        // one poller at a time
  nic::IdlePolls idle_polls;
  objects::CompletionQueue queue;
  nic::LanesOfQueue lanes{queue};
  nic::Passage passage{all_lanes};
  std::atomic<std::uint32_t> requests_max = 0;  // entries of the work queues that complete into it
  std::uint64_t wc_flags = 0;                   // extended: the fields that the program may read
  bool extended = false;
  objects::Completion current;  // extended: the completion that is being read
  CompletionClock clock;        // extended: the times of the completions
  // Guarded by the channel's mutex.
  ListHook event_hook;
  std::uint32_t events_waiting = 0;
  std::uint32_t events_reported = 0;
  std::uint32_t async_events_reported = 0;  // guarded by the context's AsyncEvents

  [[nodiscard]] ibv_cq* abi() { return reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(this)); }
  void note_idle_poll() {
    if (idle_polls.note_idle()) wait_in_vain();
  }

 private:
  void wait_in_vain();
  void on_completion(objects::CompletionQueue& completions) override;
  void on_overflow(objects::CompletionQueue& completions) override;
};

struct Channel : ibv_comp_channel {
  explicit Channel(EventDescriptor from) : ibv_comp_channel{}, descriptor(std::move(from)) {}
  EventDescriptor descriptor;
  std::mutex mutex;
  IntrusiveList<Cq, &Cq::event_hook> waiting;  // CQs with events that the program has not taken
};

struct XrcDomain : ibv_xrcd {
  objects::ProtectionDomain domain;  // for XRC_RECV QPs, which have no domain of their own
  std::uint32_t users = 0;           // guarded by the first lane's lock
  int fd = -1;                       // as the program passed it
  std::uint32_t opens = 1;
  dev_t device = 0;
  ino_t inode = 0;
};

struct Srq : ibv_srq, private objects::LimitListener {
  Srq(std::uint32_t entries, std::uint32_t sges) : ibv_srq{}, queue(entries, sges, this) {}

  nic::LaneLock producer;
  objects::ReceiveQueue queue;
  std::uint32_t events_reported = 0;  // guarded by the context's AsyncEvents
  ibv_srq_type type = IBV_SRQT_BASIC;
  std::uint32_t number = 0;
  XrcDomain* xrc_domain = nullptr;
  Cq* cq = nullptr;

 private:
  void on_limit(objects::ReceiveQueue& receives) override;
};

struct Ah : ibv_ah {
  objects::AddressHandle* handle = nullptr;
};

struct Qp : ibv_qp_ex {
  nic::Lane* lane = nullptr;
  const nic::Runtime* runtime = nullptr;
  transport::QueuePair* engine_qp = nullptr;
  std::uint32_t events_reported = 0;  // guarded by the context's AsyncEvents
  ibv_qp_cap cap{};
  bool signal_all = false;
  bool has_builders = false;
  ibv_ah_attr address{};  // as the program passed it
  XrcDomain* xrc_domain = nullptr;
  std::uint32_t multicast_groups = 0;
  ibv_ece ece{};
  // ibv_wr_*: the caller holds send_lock from wr_start to wr_complete and fills entries of `staging`, which
  // take effect at wr_complete.
  nic::LaneLock send_lock;
  std::unique_ptr<objects::SendQueue> staging;
  std::uint32_t staged = 0;
  int stage_error = 0;

  [[nodiscard]] ibv_qp* abi() { return &qp_base; }
};

// Removes the completions of a QP that is destroyed or reset. REQUIRES: the lane's lock.
void purge_completions(const ibv_qp& qp);

inline Pd& own(ibv_pd* pd) { return *static_cast<Pd*>(pd); }
inline Mr& own(ibv_mr* mr) { return *static_cast<Mr*>(mr); }
inline Mw& own(ibv_mw* mw) { return *static_cast<Mw*>(mw); }
inline DeviceMemory& own(ibv_dm* dm) { return *static_cast<DeviceMemory*>(dm); }
inline Cq& own(ibv_cq_ex* cq) { return *static_cast<Cq*>(cq); }
inline Cq& own(ibv_cq* cq) { return own(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline Channel& own(ibv_comp_channel* channel) { return *static_cast<Channel*>(channel); }
inline Srq& own(ibv_srq* srq) { return *static_cast<Srq*>(srq); }
inline Ah& own(ibv_ah* ah) { return *static_cast<Ah*>(ah); }
inline Qp& own(ibv_qp_ex* qp) { return *static_cast<Qp*>(qp); }
inline Qp& own(ibv_qp* qp) { return own(reinterpret_cast<ibv_qp_ex*>(qp)); }
inline XrcDomain& own(ibv_xrcd* domain) { return *static_cast<XrcDomain*>(domain); }
inline ThreadDomain& own(ibv_td* td) { return *static_cast<ThreadDomain*>(td); }

}  // namespace rrdma::verbs
