// The process page: data that a program publishes about itself, in a memfd. The program shares it with the
// daemon, and the daemon shares it with the tools of the same user. The program writes through the mapping
// that it made before it sealed the memfd (no resize, no further writable mapping). All others can only read,
// and must treat every value as untrusted.
//
//   page     = PageHeader, counters, slots, devices, qps
//   counter  = name (once), value (relaxed stores)
//   device   = name (once), its parts of the first counters; contributions of destroyed QPs stay
//   slot row = the next index that the program will assign to a QP of that slot; the daemon reads it when the
//              program is gone, so that QPNs continue from there
//   QP row   = one queue pair; `sequence` is odd during a change, 0 in a free row. The last acknowledgement
//              stays in a freed row: the daemon reads it when the program is gone
//
// Readers look only at rows below qp_rows_used: an untouched page of a memfd costs nothing until it is read.
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
  kLostPackets,  // detected by later packets
  kProbes,
  kNeedlessRepairs,
};

struct PageHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t size;  // of the whole page, in bytes
  std::uint32_t pid;   // in the program's own PID namespace
  std::uint32_t counter_capacity;
  std::uint32_t qp_capacity;
  std::atomic<std::uint32_t> counters_used;
  std::atomic<std::uint32_t> qp_rows_used;
  std::uint32_t device_capacity;
  std::atomic<std::uint32_t> devices_used;
  std::atomic<std::uint32_t> parts_used;  // for each device
  std::atomic<std::uint32_t> exited;      // 1 once the exit handlers ran
  std::uint32_t reserved[19];
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

// The codes of `state` and `type` are those of ibv_qp_state and ibv_qp_type.
struct QpFields {
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;
  wire::Gid peer_gid;
  std::uint8_t state = 0;
  std::uint8_t type = 0;
  std::uint8_t link = 0;  // one of the kLink bits
  std::uint8_t path_mtu_code = 0;
  std::uint32_t device = 0;  // its row + 1; 0: no particular device
  // The route of its packets, for a daemon that answers in its place.
  wire::Gid local_gid;
  std::uint32_t interface_index = 0;
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(QpFields) == 64);

// The current levels of a queue pair (counters only grow). The two fields of each 64-bit word are consistent
// with each other. A capacity of 0 means unknown.
struct QpLevels {
  std::uint32_t send_queued = 0;  // work requests
  std::uint32_t send_capacity = 0;
  std::uint32_t receive_posted = 0;  // of the shared queue, if it has one
  std::uint32_t receive_capacity = 0;
  std::uint32_t oldest_psn = 0;  // its oldest unacknowledged request
  std::uint32_t next_psn = 0;    // not yet sent
  std::uint32_t under_way = 0;   // packets in flight
  std::uint32_t window = 0;
  std::uint32_t expected_psn = 0;   // of the peer's next request
  std::uint32_t round_trip_ns = 0;  // smoothed; 0: not measured
  std::uint32_t completions_waiting = 0;
  std::uint16_t send_cq = 0;  // numbers of completion queues within the program, from 1
  std::uint16_t receive_cq = 0;
};
static_assert(sizeof(QpLevels) == 48);

struct QpRow {
  std::atomic<std::uint32_t> sequence;
  std::uint32_t reserved;
  std::atomic<std::uint64_t> words[sizeof(QpFields) / 8];  // QpFields as atomic words, to avoid data races
  std::atomic<std::uint64_t> counters[kQpCounterCount];
  std::atomic<std::uint64_t> last_answer;                   // wire::LastAnswer
  std::atomic<std::uint64_t> levels[sizeof(QpLevels) / 8];  // QpLevels, stored like `words`
  std::uint64_t reserved_tail[5];
};
static_assert(sizeof(QpRow) == 256);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The same rows as plain values, for readers.
struct PageHeaderCopy {
  std::uint32_t magic = 0, version = 0;
  std::uint64_t size = 0;
  std::uint32_t pid = 0, counter_capacity = 0, qp_capacity = 0, counters_used = 0, qp_rows_used = 0,
                device_capacity = 0, devices_used = 0, parts_used = 0, exited = 0;
  std::uint32_t reserved[19] = {};
};
static_assert(sizeof(PageHeaderCopy) == sizeof(PageHeader));
struct CounterRowCopy {
  char name[kCounterNameMax];
  std::uint64_t value;
};
static_assert(sizeof(CounterRowCopy) == sizeof(CounterRow));
struct DeviceRowCopy {
  char name[kDeviceNameMax];
  std::uint64_t parts[kPagePartCapacity];
};
static_assert(sizeof(DeviceRowCopy) == sizeof(DeviceRow));
struct SlotRowCopy {
  std::uint32_t held;
  std::uint32_t next_index;
};
static_assert(sizeof(SlotRowCopy) == sizeof(SlotRow));
struct QpRowCopy {
  std::uint32_t sequence;
  std::uint32_t reserved;
  QpFields fields;
  std::array<std::uint64_t, kQpCounterCount> counters;
  std::uint64_t last_answer;
  QpLevels levels;
  std::uint64_t reserved_tail[5];
};
static_assert(sizeof(QpRowCopy) == sizeof(QpRow));

// The program's side. Owns the memfd and its mapping. Any thread may create and destroy QP rows; one thread
// at a time updates a row.
class ProcessPage {
 public:
  [[nodiscard]] static Result<ProcessPage, Problem> create();
  ProcessPage(ProcessPage&& other) noexcept;
  ProcessPage& operator=(ProcessPage&&) = delete;
  ~ProcessPage();

  [[nodiscard]] int fd() const { return fd_.get(); }

  // The counter with that name, created by the first call; add to it with memory_order_relaxed. If the page
  // is full, all further names share one spare counter. REQUIRES: name.size() < kCounterNameMax. One thread
  // at a time: counters are created while the device opens.
  [[nodiscard]] std::atomic<std::uint64_t>& counter(std::string_view name);
  // A number for the device with that name, from 1; 0 if the page is full. One thread at a time.
  [[nodiscard]] std::uint32_t add_device(std::string_view name);
  // A device's part of a counter: add the same amount to both. The first kPagePartCapacity counters on the
  // page have parts; null for others. REQUIRES: a number from add_device, a counter of this page.
  [[nodiscard]] std::atomic<std::uint64_t>* part_of(const std::atomic<std::uint64_t>& counter,
                                                    std::uint32_t device);
  // The next index of a slot. The first call for a slot takes a row for it.
  [[nodiscard]] std::atomic<std::uint32_t>& next_index(Slot slot);
  void forget_slot(Slot slot);
  // The exit handlers of the process have run. Readers can tell its end from a crash.
  void mark_exited() { header().exited.store(1, std::memory_order_relaxed); }

  // A number for a completion queue, which QP rows refer to.
  [[nodiscard]] std::uint16_t number_queue() { return static_cast<std::uint16_t>(++queues_numbered_); }
  // A free row with zeroed counters, or null if all are taken: the QP is then not listed.
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
  std::atomic<std::uint32_t> first_free_qp_ = 0;  // a hint where to search
  std::atomic<std::uint32_t> queues_numbered_{0};
};

// The last acknowledgement of a queue pair, which may be destroyed.
struct QpAnswer {
  QpFields fields;
  wire::LastAnswer answer;
};

// The traffic of one device, including destroyed queue pairs.
struct DeviceSnapshot {
  std::string name;
  std::vector<NamedCounter> counters;
};

struct QpSnapshot {
  QpFields fields;
  std::array<std::uint64_t, kQpCounterCount> counters{};
  QpLevels levels;
};

// A reader's view of a page that another process wrote. Offsets are our own; each value is copied once. The
// view reads with system calls and maps nothing: touching an unwritten page of a memfd would charge it to the
// reader.
class ProcessPageView {
 public:
  // Refuses anything but a sealed page of this version. Keeps its own descriptor.
  [[nodiscard]] static Result<ProcessPageView, Problem> open(int fd);

  [[nodiscard]] std::vector<NamedCounter> counters() const;
  [[nodiscard]] std::vector<DeviceSnapshot> devices() const;
  // Each queue pair as of the moment it is read; rows that change constantly are left out.
  [[nodiscard]] std::vector<QpSnapshot> queue_pairs() const;
  [[nodiscard]] std::optional<std::uint16_t> next_index(Slot slot) const;
  [[nodiscard]] bool has_exited() const;
  // For a program that no longer writes; at most `count_max` answers, from the first rows that it used.
  [[nodiscard]] std::vector<QpAnswer> last_answers(Instant now, Duration age_max,
                                                   std::size_t count_max) const;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit ProcessPageView(OwnedFd fd) : fd_(std::move(fd)) {}
  // False, and zeros, where the file has less.
  bool read(std::size_t offset, void* to, std::size_t octets) const;
  template <typename Row>
  [[nodiscard]] std::vector<Row> rows(std::size_t offset, std::size_t count) const;
  // The next row of a queue pair, from `row` on, that was ever written; the capacity: none.
  [[nodiscard]] std::uint32_t next_written(std::uint32_t row) const;
  [[nodiscard]] std::uint32_t qp_rows_used() const;

  OwnedFd fd_;
};

}  // namespace rrdma::control
