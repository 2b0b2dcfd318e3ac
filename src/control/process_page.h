// The process page: what a program publishes about itself, in a memfd that it shares with the daemon
// and, through the daemon, with the tools of the same user. The program writes through the one mapping
// that it made before it sealed the memfd (no resize, no further writable mapping); everybody else can
// only read, and takes every value as if a stranger had written it.
//
//   page     = PageHeader, counters, slots, devices, qps
//   counter  = name (once), value (relaxed stores)
//   device   = name (once), its parts of the first counters' values; what a QP added stays when it is destroyed
//   slot row = the next index that the program will give to a QP of that slot; the daemon reads it when
//              the program is gone, so that QPNs go on where they were
//   QP row   = one queue pair; `sequence` is odd while the row is being changed, 0 in a free row. What it acknowledged
//              last stays in a row that was freed: the daemon reads it when the program is gone
//
// Readers look at rows below qp_rows_used only: an untouched page of a memfd costs nothing until it is
// read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned_fd.h"
#include "base/problem.h"
#include "base/result.h"
#include "control/messages.h"
#include "wire/gid.h"
#include "wire/last_answer.h"

namespace rrdma::control {

inline constexpr std::uint32_t kPageMagic = 0x52525050;  // "RRPP"
inline constexpr std::uint32_t kPageVersion = 5;
inline constexpr std::uint32_t kPageCounterCapacity = 128;
inline constexpr std::uint32_t kPageDeviceCapacity = 32;
inline constexpr std::uint32_t kPagePartCapacity = 64;
inline constexpr std::uint32_t kPageQpCapacity = 65536;
inline constexpr std::size_t kCounterNameMax = 40;
inline constexpr std::size_t kDeviceNameMax = 32;
inline constexpr std::size_t kQpCounterCount = 11;

// The meaning of QpRow::counters.
enum class QpCounter : std::uint8_t {
  kSentMessages,
  kReceivedMessages,
  kSentOctets,
  kReceivedOctets,
  kRetransmittedPackets,
  kTimeouts,
  kSequenceNaks,
  kReceiverNotReady,
  kLostPackets,  // found by what came after them
  kProbes,
  kNeedlessRepairs,
};

struct PageHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t size;  // of the whole page, in octets
  std::uint32_t pid;   // in the program's own PID namespace
  std::uint32_t counter_capacity;
  std::uint32_t qp_capacity;
  std::atomic<std::uint32_t> counters_used;
  std::atomic<std::uint32_t> qp_rows_used;
  std::uint32_t device_capacity;
  std::atomic<std::uint32_t> devices_used;
  std::atomic<std::uint32_t> parts_used;  // of each device
  std::uint32_t reserved[20];
};
static_assert(sizeof(PageHeader) == 128);

struct CounterRow {
  char name[kCounterNameMax];
  std::atomic<std::uint64_t> value;
};
static_assert(sizeof(CounterRow) == 48);

struct DeviceRow {
  char name[kDeviceNameMax];
  std::atomic<std::uint64_t> parts[kPagePartCapacity];  // parts[i] of counter row i
};
static_assert(sizeof(DeviceRow) == 544);

struct SlotRow {
  std::atomic<std::uint32_t> held;        // the slot + 1; 0: a free row
  std::atomic<std::uint32_t> next_index;  // kIndexUnknown until the program holds the slot
};
inline constexpr std::uint32_t kIndexUnknown = 0xffffffff;

// Codes of `state` and `type` are those of ibv_qp_state and ibv_qp_type.
struct QpFields {
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;
  wire::Gid peer_gid;
  std::uint8_t state = 0;
  std::uint8_t type = 0;
  std::uint8_t link = 0;  // one of the kLink bits
  std::uint8_t path_mtu_code = 0;
  std::uint32_t device = 0;  // its row + 1; 0: none in particular
  // How its packets travel, for who answers in its place.
  wire::Gid local_gid;
  std::uint32_t interface_index = 0;
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(QpFields) == 64);

// What a queue pair holds at the moment, where counters only grow. Two neighbours are of one moment. Capacities
// of 0: the program does not say.
struct QpLevels {
  std::uint32_t send_queued = 0;  // work requests
  std::uint32_t send_capacity = 0;
  std::uint32_t receive_posted = 0;  // of a shared queue, where it has one
  std::uint32_t receive_capacity = 0;
  std::uint32_t oldest_psn = 0;  // of its requests: not acknowledged yet
  std::uint32_t next_psn = 0;    // not sent yet
  std::uint32_t under_way = 0;   // packets
  std::uint32_t window = 0;
  std::uint32_t expected_psn = 0;   // of the peer's requests
  std::uint32_t round_trip_ns = 0;  // smoothed; 0: not measured
  std::uint32_t completions_waiting = 0;
  std::uint16_t send_cq = 0;  // numbers of completion queues within the program, from 1
  std::uint16_t receive_cq = 0;
};
static_assert(sizeof(QpLevels) == 48);

struct QpRow {
  std::atomic<std::uint32_t> sequence;
  std::uint32_t reserved;
  std::atomic<std::uint64_t>
      words[sizeof(QpFields) / 8];  // QpFields, stored so that a race is no undefined behaviour
  std::atomic<std::uint64_t> counters[kQpCounterCount];
  std::atomic<std::uint64_t> last_answer;                   // wire::LastAnswer
  std::atomic<std::uint64_t> levels[sizeof(QpLevels) / 8];  // QpLevels, stored as `words` are
  std::uint64_t reserved_tail[5];
};
static_assert(sizeof(QpRow) == 256);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The program's side. Owns the memfd and its mapping. QP rows may be made and destroyed from any
// thread; one row is updated by one thread at a time.
class ProcessPage {
 public:
  [[nodiscard]] static Result<ProcessPage, Problem> create();
  ProcessPage(ProcessPage&& other) noexcept;
  ProcessPage& operator=(ProcessPage&&) = delete;
  ~ProcessPage();

  [[nodiscard]] int fd() const { return fd_.get(); }

  // The counter of that name, made at the first call; add to it with memory_order_relaxed. The same
  // spare counter for all when the page is full. REQUIRES: name.size() < kCounterNameMax.
  // One thread at a time: counters are made while the device opens.
  [[nodiscard]] std::atomic<std::uint64_t>& counter(std::string_view name);
  // A number for the device of that name, from 1; 0 when the page is full. One thread at a time.
  [[nodiscard]] std::uint32_t add_device(std::string_view name);
  // What a device has of a counter: add as much to both. The counters with parts are the first on the page; null for
  // one that is not among the first kPagePartCapacity. REQUIRES: a number from add_device, a counter of this page.
  [[nodiscard]] std::atomic<std::uint64_t>* part_of(const std::atomic<std::uint64_t>& counter,
                                                    std::uint32_t device);
  // Where the next QPN of a slot stands. The first call for a slot takes a row for it.
  [[nodiscard]] std::atomic<std::uint32_t>& next_index(Slot slot);
  void forget_slot(Slot slot);

  // A number for a completion queue, which rows of QPs name.
  [[nodiscard]] std::uint16_t number_queue() { return static_cast<std::uint16_t>(++queues_numbered_); }
  // A free row with zeroed counters, or nullptr when all are taken: the QP then lives unlisted.
  [[nodiscard]] QpRow* create_qp();
  static void update_qp(QpRow& row, const QpFields& fields);
  static void set_levels(QpRow& row, const QpLevels& levels);
  void destroy_qp(QpRow& row);
  static void count(QpRow& row, QpCounter which, std::uint64_t amount = 1) {
    row.counters[static_cast<std::size_t>(which)].fetch_add(amount, std::memory_order_relaxed);
  }

 private:
  ProcessPage(OwnedFd fd, std::uint8_t* base) : fd_(std::move(fd)), base_(base) {}
  PageHeader& header() { return *reinterpret_cast<PageHeader*>(base_); }

  OwnedFd fd_;
  std::uint8_t* base_ = nullptr;
  std::atomic<std::uint32_t> first_free_qp_ = 0;  // where to look first; a guess
  std::atomic<std::uint32_t> queues_numbered_{0};
};

// What a queue pair, perhaps one that was destroyed, acknowledged last.
struct QpAnswer {
  QpFields fields;
  wire::LastAnswer answer;
};

// What one device has carried, destroyed queue pairs included.
struct DeviceSnapshot {
  std::string name;
  std::vector<NamedCounter> counters;
};

struct QpSnapshot {
  QpFields fields;
  std::array<std::uint64_t, kQpCounterCount> counters{};
  QpLevels levels;
};

// A reader's view of a page that somebody else wrote. Every offset is ours, every value is copied once.
class ProcessPageView {
 public:
  // Refuses what is not a sealed page of this version: a memfd that could shrink would be a SIGBUS.
  [[nodiscard]] static Result<ProcessPageView, Problem> open(int fd);
  ProcessPageView(ProcessPageView&& other) noexcept;
  ProcessPageView& operator=(ProcessPageView&&) = delete;
  ~ProcessPageView();

  [[nodiscard]] std::vector<NamedCounter> counters() const;
  [[nodiscard]] std::vector<DeviceSnapshot> devices() const;
  // Queue pairs, as they are at the moment each is read; rows that change all the time are left out.
  [[nodiscard]] std::vector<QpSnapshot> queue_pairs() const;
  [[nodiscard]] std::optional<std::uint16_t> next_index(Slot slot) const;
  // For a program that writes no more, at most so many.
  [[nodiscard]] std::vector<QpAnswer> last_answers(Instant now, Duration age_max,
                                                   std::size_t count_max) const;

 private:
  explicit ProcessPageView(const std::uint8_t* base) : base_(base) {}
  const std::uint8_t* base_ = nullptr;
};

}  // namespace rrdma::control
