// Work queues: rings of requests. All memory is allocated when the queue is created.
//
// SendQueue: entries are written in place (reserve, fill, publish). They stay until they are completed,
// because the transport retransmits from them, and retire in order. ReceiveQueue serves as the receive queue
// of a QP and as a shared one. An entry is copied out when a message consumes it, so several QPs may hold
// entries of one shared queue. ReceiveQueue has one producer and one consumer at a time, which need no common
// lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/assert.h"
#include "base/call_site.h"
#include "objects/completion_queue.h"
#include "objects/memory.h"
#include "objects/path.h"

namespace rrdma::objects {

inline constexpr std::uint32_t kInlineMax = 1024;
inline constexpr std::uint32_t kQueueEntriesMax = 1u << 16;

// Values of ibv_wr_opcode; the last one is the kernel's IB_WR_REG_MR.
enum class SendOpcode : std::uint8_t {
  kWrite = 0,
  kWriteImmediate = 1,
  kSend = 2,
  kSendImmediate = 3,
  kRead = 4,
  kCompareSwap = 5,
  kFetchAdd = 6,
  kLocalInvalidate = 7,
  kBindWindow = 8,
  kSendInvalidate = 9,
  kFlush = 14,
  kAtomicWrite = 15,
  kRenewRegion = 32,
};

constexpr CompletionOpcode completion_opcode(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImmediate: return CompletionOpcode::kWrite;
    case SendOpcode::kRead: return CompletionOpcode::kRead;
    case SendOpcode::kCompareSwap: return CompletionOpcode::kCompareSwap;
    case SendOpcode::kFetchAdd: return CompletionOpcode::kFetchAdd;
    case SendOpcode::kLocalInvalidate: return CompletionOpcode::kLocalInvalidate;
    case SendOpcode::kBindWindow: return CompletionOpcode::kBindWindow;
    case SendOpcode::kFlush: return CompletionOpcode::kFlush;
    case SendOpcode::kAtomicWrite: return CompletionOpcode::kAtomicWrite;
    default: return CompletionOpcode::kSend;
  }
}

// Bits of ibv_send_flags.
inline constexpr std::uint8_t kSendFence = 1u << 0;
inline constexpr std::uint8_t kSendSignaled = 1u << 1;
inline constexpr std::uint8_t kSendSolicited = 1u << 2;
inline constexpr std::uint8_t kSendInline = 1u << 3;

// Address handle: a resolved path in a protection domain.
struct AddressHandle {
  ProtectionDomain* pd = nullptr;
  Path path;
  // Posted send requests that are not yet sent point to the handle. If it is destroyed meanwhile, it lives
  // until the last of them is sent.
  mutable std::uint32_t users = 0;
  bool orphaned = false;

  void hold() const { ++users; }
  void release() const {
    if (--users == 0 && orphaned) delete this;
  }
  // Called by the owner. REQUIRES: allocated by new.
  void destroy() {
    orphaned = true;
    if (users == 0) delete this;
  }
};

// Names window and region by their keys: either may be gone when the request is executed. A request that
// renews a region has no window; `remote_address` is the host address of the memory.
struct BindRequest {
  BindRequest() = default;
  BindRequest(const MemoryWindow* of_window, const MemoryRegion* of_region, std::uint64_t first,
              std::uint64_t octets, std::uint32_t rights)
      : window_key(of_window != nullptr ? of_window->key : 0),
        region_key(of_region != nullptr ? of_region->key : 0),
        address(first),
        length(octets),
        access(rights) {}

  std::uint32_t window_key;  // 0: none; its variant may have changed since
  std::uint32_t region_key;  // 0: none
  std::uint64_t address;
  std::uint64_t length;
  std::uint32_t access;
};

// One send request. The first part belongs to the caller, the second to the transport.
struct SendEntry {
  std::uint64_t wr_id = 0;
  SendOpcode opcode = SendOpcode::kSend;
  std::uint8_t flags = 0;
  std::uint8_t sge_count = 0;          // 0 if inline
  std::uint32_t length = 0;            // of the message
  std::uint32_t immediate_or_key = 0;  // Immediate::raw; or the rkey to invalidate (host order)
  wire::RKey rkey;
  std::uint64_t remote_address = 0;
  union {
    struct {
      std::uint64_t compare_add;
      std::uint64_t swap;
    } atomic{};
    struct {
      const AddressHandle* handle;
      std::uint32_t qkey;
      std::uint32_t remote_qpn;
    } datagram;
    struct {
      std::uint8_t placement;    // FETH placement type
      std::uint8_t selectivity;  // FETH selectivity level
    } flush;
    BindRequest bind;
    struct {
      std::uint8_t data[8];
      std::uint8_t octets;
    } tail;  // READ: the last bytes of the message, if they arrived out of order
  };
  CallSite posted;            // explanations name it
  std::uint32_t xrc_srq = 0;  // XRC: the peer's shared receive queue

  // The transport's part.
  wire::Psn first_psn;
  std::uint32_t packet_count = 0;  // PSNs that this request uses; 0: not started
  std::uint32_t read_packets = 0;  // READ: PSNs of one request on the wire
  std::uint32_t received = 0;      // READ: response bytes placed so far
  bool answered = false;           // READ, ATOMIC, FLUSH, ATOMIC WRITE: the response is complete
  bool local_done = false;         // bind, local invalidate, renewal: executed
  bool placed = false;             // WRITE with immediate: the data was placed by direct access
  Status status = Status::kSuccess;

  [[nodiscard]] bool is_inline() const { return (flags & kSendInline) != 0; }
};

class SendQueue {
 public:
  // REQUIRES: entries <= kQueueEntriesMax, sges <= kSgeMax, inline_octets <= kInlineMax.
  SendQueue(std::uint32_t entries, std::uint32_t sges, std::uint32_t inline_octets);

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint32_t sge_max() const { return sge_max_; }
  [[nodiscard]] std::uint32_t inline_max() const { return inline_max_; }
  [[nodiscard]] bool full() const { return tail_ - head_ >= capacity_; }
  [[nodiscard]] bool empty() const { return tail_ == head_; }

  // Indices increase forever; entries in [head, tail) are live.
  [[nodiscard]] std::uint64_t head() const { return head_; }
  [[nodiscard]] std::uint64_t tail() const { return tail_; }

  SendEntry& at(std::uint64_t index) { return *reinterpret_cast<SendEntry*>(slot(index)); }
  // The gather list of an entry, or the space for it.
  Sge* sges(std::uint64_t index) { return reinterpret_cast<Sge*>(slot(index) + kListOffset); }
  std::span<const Sge> list(std::uint64_t index) { return {sges(index), at(index).sge_count}; }
  std::uint8_t* inline_data(std::uint64_t index) { return slot(index) + kListOffset; }

  // The next entry to fill, or one of a batch, initialized to defaults or to `start`. REQUIRES: !full().
  SendEntry& reserve() { return *new (slot(tail_)) SendEntry; }
  SendEntry& reserve(std::uint64_t ahead, const SendEntry& start = {}) {
    return *new (slot(tail_ + ahead)) SendEntry(start);
  }
  void publish(std::uint64_t count = 1) {
    tail_ += count;
    RRDMA_ASSERT(tail_ - head_ <= capacity_);
  }
  void retire() {
    RRDMA_ASSERT(head_ != tail_);
    ++head_;
  }

 private:
  static constexpr std::size_t kListOffset = (sizeof(SendEntry) + 15) / 16 * 16;
  std::uint8_t* slot(std::uint64_t index) { return memory_.get() + (index & mask_) * stride_; }

  std::uint32_t capacity_, sge_max_, inline_max_;
  std::uint32_t mask_;
  std::size_t stride_;
  std::unique_ptr<std::uint8_t[]> memory_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

struct ReceiveEntry {
  std::uint64_t wr_id = 0;
  std::uint32_t sge_count = 0;
};

class ReceiveQueue;
class LimitListener {
 public:
  virtual ~LimitListener() = default;
  virtual void on_limit(ReceiveQueue& queue) = 0;
};

// Requests that are posted elsewhere, and move to the queue when a message finds it empty.
class ReceiveSource {
 public:
  virtual ~ReceiveSource() = default;
  // Posts what is there. Called by the consumer, which is the only producer then.
  virtual void refill(ReceiveQueue& queue) = 0;
};

class ReceiveQueue {
 public:
  // REQUIRES: entries <= kQueueEntriesMax, sges <= kSgeMax.
  ReceiveQueue(std::uint32_t entries, std::uint32_t sges, LimitListener* listener = nullptr);

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint32_t sge_max() const { return sge_max_; }
  [[nodiscard]] std::size_t size() const {
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool empty() const { return size() == 0; }

  // Producer. False if the queue is full. REQUIRES: list.size() <= sge_max().
  bool post(std::uint64_t wr_id, std::span<const Sge> list);
  // Consumer. Moves the oldest entry to `entry` and its list to `list` (room for sge_max()). False if empty.
  bool take(ReceiveEntry& entry, Sge* list);
  // REQUIRES: neither side is active. False if the queued entries would not fit.
  bool resize(std::uint32_t entries);
  // The source must outlive the queue; null: none.
  void set_source(ReceiveSource* source) { source_ = source; }

  // Shared queues: raises one event when fewer than `limit` entries are left; 0 disarms.
  void arm_limit(std::uint32_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t limit() const { return limit_.load(std::memory_order_relaxed); }

  std::uint32_t users = 0;  // QPs that use it (shared queues)
  // Shared queues: the domain for checking the lists of its entries, whatever the QP's domain. For XRC,
  // remote keys are checked against it, too. Set by the owner.
  ProtectionDomain* pd = nullptr;
  CompletionQueue* completions = nullptr;  // XRC: the queue for its completions; null for other queues
  const void* xrc_domain = nullptr;        // XRC: the domain whose QPs may use it

 private:
  static constexpr std::size_t kListOffset = 16;
  std::uint8_t* slot(std::uint64_t index) { return memory_.get() + (index & mask_) * stride_; }

  std::uint32_t capacity_, sge_max_;
  std::uint32_t mask_;
  std::size_t stride_;
  std::unique_ptr<std::uint8_t[]> memory_;
  LimitListener* listener_;
  ReceiveSource* source_ = nullptr;
  std::atomic<std::uint32_t> limit_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<std::uint64_t> head_{0};
};

}  // namespace rrdma::objects
