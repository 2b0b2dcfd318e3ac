#include "control/process_page.h"

#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file_space.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace rrdma::control {
namespace {

constexpr std::size_t kCountersOffset = sizeof(PageHeader);
constexpr std::size_t kSlotsOffset = kCountersOffset + kPageCounterCapacity * sizeof(CounterRow);
constexpr std::size_t kDevicesOffset =
    (kSlotsOffset + kSlotsOfProgramMax * sizeof(SlotRow) + 127) / 128 * 128;
constexpr std::size_t kQpsOffset =
    (kDevicesOffset + kPageDeviceCapacity * sizeof(DeviceRow) + 127) / 128 * 128;
constexpr std::size_t kPageSize = kQpsOffset + std::size_t{kPageQpCapacity} * sizeof(QpRow);
constexpr int kReadAttemptsMax = 16;
constexpr const char* kOtherRelease =
    "this program's counters have another layout: its RRDMA library and rrdmad, or this tool, are of "
    "different releases; end the programs that use the older one, then start again.";
constexpr std::uint32_t kRowsOfOneRead = 64;
// Rows that a daemon looks at when a program is gone: 2 MiB, however many the program says it used.
constexpr std::uint32_t kAnswerRowsMax = 8192;

// All names that no longer fit share the last counter.
constexpr std::uint32_t kSpareCounter = kPageCounterCapacity - 1;

template <typename Row>
Row* rows_at(const std::uint8_t* base, std::size_t offset) {
  return reinterpret_cast<Row*>(const_cast<std::uint8_t*>(base) + offset);
}

bool has_seals(int fd, int wanted) {
  const int seals = raw::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & wanted) == wanted;
}

// A hugetlb file can be sealed, too, but may have no page left when it is touched.
bool is_plain_memory(int fd) {
  struct statfs about {};
  return ::syscall(SYS_fstatfs, fd, &about) == 0 && about.f_type == TMPFS_MAGIC;
}

std::size_t size_of_file(int fd) {
  struct stat status {};
  // Our own preload intercepts the C library's fstat.
  if (::syscall(SYS_fstat, fd, &status) < 0) return 0;
  return static_cast<std::size_t>(status.st_size);
}

Result<ProcessPage, Problem> failed(const char* step) {
  const int error = errno;
  return problem(
      error, std::string("the process page could not be made (") + step + "): " + std::strerror(error) + ".");
}

}  // namespace

Result<ProcessPage, Problem> ProcessPage::create() {
  OwnedFd fd = lifted(raw::memfd_create("rrdma-process", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failed("memfd_create");
  if (!set_length(fd.get(), kPageSize)) return failed("ftruncate");
  void* base = ::mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return failed("mmap");
  // F_SEAL_FUTURE_WRITE needs Linux 5.1. Without it, readers, which belong to the same user, could write the
  // page.
  if (raw::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) <
          0 &&
      raw::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
    auto failure = failed("seal");
    ::munmap(base, kPageSize);
    return failure;
  }
  ProcessPage page(std::move(fd), static_cast<std::uint8_t*>(base));
  PageHeader& header = page.header();
  header.size = kPageSize;
  header.pid = static_cast<std::uint32_t>(raw::getpid());
  header.counter_capacity = kPageCounterCapacity;
  header.qp_capacity = kPageQpCapacity;
  header.device_capacity = kPageDeviceCapacity;
  header.version = kPageVersion;
  std::atomic_ref<std::uint32_t>(header.magic).store(kPageMagic, std::memory_order_release);
  return page;
}

ProcessPage::ProcessPage(ProcessPage&& other) noexcept
    : fd_(std::move(other.fd_)),
      base_(std::exchange(other.base_, nullptr)),
      first_free_qp_(other.first_free_qp_.load(std::memory_order_relaxed)) {}

ProcessPage::~ProcessPage() {
  if (base_ != nullptr) ::munmap(base_, kPageSize);
}

std::atomic<std::uint64_t>& ProcessPage::counter(std::string_view name) {
  RRDMA_ASSERT(name.size() < kCounterNameMax);
  auto* rows = rows_at<CounterRow>(base_, kCountersOffset);
  std::uint32_t used = header().counters_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (name == rows[i].name) return rows[i].value;
  }
  if (used >= kSpareCounter) return rows[kSpareCounter].value;
  std::memcpy(rows[used].name, name.data(), name.size());
  header().counters_used.store(used + 1, std::memory_order_release);
  return rows[used].value;
}

std::uint32_t ProcessPage::add_device(std::string_view name) {
  RRDMA_ASSERT(name.size() < kDeviceNameMax);
  auto* rows = rows_at<DeviceRow>(base_, kDevicesOffset);
  const std::uint32_t used = header().devices_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (name == rows[i].name) return i + 1;
  }
  if (used >= kPageDeviceCapacity) return 0;
  std::memcpy(rows[used].name, name.data(), name.size());
  header().devices_used.store(used + 1, std::memory_order_release);
  return used + 1;
}

std::atomic<std::uint64_t>* ProcessPage::part_of(const std::atomic<std::uint64_t>& counter,
                                                 std::uint32_t device) {
  const auto* rows = rows_at<const CounterRow>(base_, kCountersOffset);
  std::uint32_t place = 0;
  while (place < kPagePartCapacity && &rows[place].value != &counter) ++place;
  if (place == kPagePartCapacity) return nullptr;
  if (header().parts_used.load(std::memory_order_relaxed) <= place)
    header().parts_used.store(place + 1, std::memory_order_release);
  return &rows_at<DeviceRow>(base_, kDevicesOffset)[device - 1].parts[place];
}

std::atomic<std::uint32_t>& ProcessPage::next_index(Slot slot) {
  auto* rows = rows_at<SlotRow>(base_, kSlotsOffset);
  const std::uint32_t held = std::uint32_t{slot} + 1;
  for (std::size_t i = 0; i < kSlotsOfProgramMax; ++i) {
    if (rows[i].held.load(std::memory_order_acquire) == held) return rows[i].next_index;
  }
  for (std::size_t i = 0; i < kSlotsOfProgramMax; ++i) {
    std::uint32_t free = 0;
    if (rows[i].held.load(std::memory_order_relaxed) != 0) continue;
    rows[i].next_index.store(kIndexUnknown, std::memory_order_relaxed);
    if (rows[i].held.compare_exchange_strong(free, held, std::memory_order_acq_rel))
      return rows[i].next_index;
  }
  RRDMA_ASSERT(false);  // a program holds at most kSlotsOfProgramMax slots
  return rows[0].next_index;
}

void ProcessPage::forget_slot(Slot slot) {
  auto* rows = rows_at<SlotRow>(base_, kSlotsOffset);
  for (std::size_t i = 0; i < kSlotsOfProgramMax; ++i) {
    std::uint32_t held = std::uint32_t{slot} + 1;
    (void)rows[i].held.compare_exchange_strong(held, 0, std::memory_order_acq_rel);
  }
}

// Sequence 2 marks a row as taken: even, hence readable, and not 0.
QpRow* ProcessPage::create_qp() {
  auto* rows = rows_at<QpRow>(base_, kQpsOffset);
  const std::uint32_t first = first_free_qp_.load(std::memory_order_relaxed);
  for (std::uint32_t tries = 0; tries < kPageQpCapacity; ++tries) {
    const std::uint32_t i = (first + tries) % kPageQpCapacity;
    std::uint32_t free = 0;
    if (rows[i].sequence.load(std::memory_order_relaxed) != 0) continue;
    if (!rows[i].sequence.compare_exchange_strong(free, 1, std::memory_order_acq_rel)) continue;
    for (auto& counter : rows[i].counters) counter.store(0, std::memory_order_relaxed);
    for (auto& word : rows[i].words) word.store(0, std::memory_order_relaxed);
    for (auto& word : rows[i].levels) word.store(0, std::memory_order_relaxed);
    rows[i].last_answer.store(0, std::memory_order_relaxed);
    rows[i].sequence.store(2, std::memory_order_release);
    std::uint32_t used = header().qp_rows_used.load(std::memory_order_relaxed);
    while (used < i + 1 &&
           !header().qp_rows_used.compare_exchange_weak(used, i + 1, std::memory_order_release)) {
    }
    first_free_qp_.store((i + 1) % kPageQpCapacity, std::memory_order_relaxed);
    return &rows[i];
  }
  return nullptr;
}

void ProcessPage::update_qp(QpRow& row, const QpFields& fields) {
  const std::uint32_t before = row.sequence.load(std::memory_order_relaxed);
  row.sequence.store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::uint64_t words[sizeof(QpFields) / 8];
  std::memcpy(words, &fields, sizeof words);
  for (std::size_t i = 0; i < std::size(words); ++i) row.words[i].store(words[i], std::memory_order_relaxed);
  // Never back to 0, which means free.
  row.sequence.store(before + 2 == 0 ? 2 : before + 2, std::memory_order_release);
}

void ProcessPage::set_levels(QpRow& row, const QpLevels& levels) {
  std::uint64_t words[sizeof levels / 8];
  std::memcpy(words, &levels, sizeof words);
  for (std::size_t i = 0; i < std::size(words); ++i) row.levels[i].store(words[i], std::memory_order_relaxed);
}

// Reuse low rows first: readers scan all rows below the highest one ever used.
void ProcessPage::destroy_qp(QpRow& row) {
  row.sequence.store(0, std::memory_order_release);
  const auto number = static_cast<std::uint32_t>(&row - rows_at<QpRow>(base_, kQpsOffset));
  if (number < first_free_qp_.load(std::memory_order_relaxed))
    first_free_qp_.store(number, std::memory_order_relaxed);
}

bool ProcessPageView::read(std::size_t offset, void* to, std::size_t octets) const {
  const long got = ::syscall(SYS_pread64, fd_.get(), to, octets, static_cast<off_t>(offset));
  if (got == static_cast<long>(octets)) return true;
  std::memset(to, 0, octets);
  return false;
}

template <typename Row>
std::vector<Row> ProcessPageView::rows(std::size_t offset, std::size_t count) const {
  std::vector<Row> copies(count);
  if (count > 0) (void)read(offset, copies.data(), count * sizeof(Row));
  return copies;
}

Result<ProcessPageView, Problem> ProcessPageView::open(int fd) {
  // Seals first: only memory has any, and to ask a file of another kind for more may wait for whoever serves
  // it.
  if (!has_seals(fd, F_SEAL_SHRINK | F_SEAL_GROW) || !is_plain_memory(fd)) {
    return problem(EINVAL, "a process page that is not sealed against shrinking is not read.");
  }
  if (size_of_file(fd) != kPageSize) return problem(EINVAL, kOtherRelease);
  OwnedFd own = lifted(raw::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!own) {
    return problem(errno, std::string("a process page cannot be read: ") + std::strerror(errno) + ".");
  }
  ProcessPageView view(std::move(own));
  PageHeaderCopy header;
  if (!view.read(0, &header, sizeof header) || header.magic != kPageMagic || header.version != kPageVersion) {
    return problem(EPROTO, kOtherRelease);
  }
  return view;
}

namespace {

// Tools print this text on terminals and line by line, so replace control characters and blanks.
std::string printable(const char* name, std::size_t room) {
  std::string text(name, ::strnlen(name, room));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c <= ' ' || c >= 0x7f; }, '?');
  return text;
}

}  // namespace

std::vector<NamedCounter> ProcessPageView::counters() const {
  PageHeaderCopy header;
  (void)read(0, &header, sizeof header);
  std::vector<NamedCounter> counters;
  for (const CounterRowCopy& row :
       rows<CounterRowCopy>(kCountersOffset, std::min(header.counters_used, kSpareCounter)))
    counters.push_back({printable(row.name, sizeof row.name), row.value});
  return counters;
}

std::vector<DeviceSnapshot> ProcessPageView::devices() const {
  PageHeaderCopy header;
  (void)read(0, &header, sizeof header);
  std::vector<NamedCounter> parted = counters();
  parted.resize(std::min<std::size_t>({parted.size(), kPagePartCapacity, header.parts_used}));
  std::vector<DeviceSnapshot> devices;
  for (const DeviceRowCopy& row :
       rows<DeviceRowCopy>(kDevicesOffset, std::min(header.devices_used, kPageDeviceCapacity))) {
    for (std::size_t part = 0; part < parted.size(); ++part) parted[part].value = row.parts[part];
    devices.push_back({printable(row.name, sizeof row.name), parted});
  }
  return devices;
}

bool ProcessPageView::has_exited() const {
  PageHeaderCopy header;
  return read(0, &header, sizeof header) && header.exited != 0;
}

std::uint32_t ProcessPageView::qp_rows_used() const {
  PageHeaderCopy header;
  (void)read(0, &header, sizeof header);
  return std::min(header.qp_rows_used, kPageQpCapacity);
}

std::uint32_t ProcessPageView::next_written(std::uint32_t row) const {
  const std::size_t from = kQpsOffset + std::size_t{row} * sizeof(QpRow);
  const long at = ::syscall(SYS_lseek, fd_.get(), static_cast<off_t>(from), SEEK_DATA);
  if (at < 0) return kPageQpCapacity;
  const auto data = static_cast<std::size_t>(at);
  return data <= from ? row : static_cast<std::uint32_t>((data - kQpsOffset) / sizeof(QpRow));
}

// Three copies of some rows, one after the other. A row whose sequence is the same in the first and the last,
// and even, did not change meanwhile.
std::vector<QpSnapshot> ProcessPageView::queue_pairs() const {
  const std::uint32_t used = qp_rows_used();
  std::vector<QpSnapshot> found;
  std::uint32_t first = 0;
  while ((first = next_written(first)) < used) {
    const std::uint32_t count = std::min(kRowsOfOneRead, used - first);
    std::vector<bool> done(count);
    for (int attempt = 0; attempt < kReadAttemptsMax; ++attempt) {
      const std::size_t offset = kQpsOffset + std::size_t{first} * sizeof(QpRow);
      const auto before = rows<QpRowCopy>(offset, count);
      const auto content = rows<QpRowCopy>(offset, count);
      const auto after = rows<QpRowCopy>(offset, count);
      bool all = true;
      for (std::uint32_t i = 0; i < count; ++i) {
        if (done[i]) continue;
        const std::uint32_t sequence = before[i].sequence;
        done[i] = sequence % 2 == 0 && (sequence == 0 || sequence == after[i].sequence);
        all = all && done[i];
        if (done[i] && sequence != 0)
          found.push_back({content[i].fields, content[i].counters, content[i].levels});
      }
      if (all) break;
    }
    first += count;
  }
  return found;
}

std::vector<QpAnswer> ProcessPageView::last_answers(Instant now, Duration age_max,
                                                    std::size_t count_max) const {
  const std::uint32_t used = qp_rows_used();
  std::vector<QpAnswer> found;
  std::uint32_t rows_read = 0;
  std::uint32_t first = 0;
  while (rows_read < kAnswerRowsMax && (first = next_written(first)) < used) {
    const std::uint32_t count = std::min(kRowsOfOneRead, used - first);
    for (const QpRowCopy& row : rows<QpRowCopy>(kQpsOffset + std::size_t{first} * sizeof(QpRow), count)) {
      const auto answer = wire::LastAnswer::read(row.last_answer);
      if (!answer || answer->age(now) > age_max) continue;
      if (found.size() == count_max) return found;
      found.push_back({row.fields, *answer});
    }
    first += count;
    rows_read += count;
  }
  return found;
}

std::optional<std::uint16_t> ProcessPageView::next_index(Slot slot) const {
  for (const SlotRowCopy& row : rows<SlotRowCopy>(kSlotsOffset, kSlotsOfProgramMax)) {
    if (row.held == std::uint32_t{slot} + 1 && row.next_index < qpns_of(slot).count)
      return static_cast<std::uint16_t>(row.next_index);
  }
  return std::nullopt;
}

}  // namespace rrdma::control
