#include "link/shm/direct_table.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/file_space.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace rrdma::link {
namespace {

constexpr unsigned kKeyRows = 0;
constexpr unsigned kQpRows = 1;
constexpr unsigned kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr std::size_t kValues = 7;

// Value 0 is the search key; it is never 0 in a published row.
using Values = std::array<std::uint64_t, kValues>;

std::uint64_t pack(std::uint32_t low, std::uint32_t high) {
  return low | static_cast<std::uint64_t>(high) << 32;
}
std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
std::uint32_t high(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

// Both are random, except the upper byte of QPNs, which all QPNs of a process share, and the low byte of a
// key.
std::size_t hash_of(wire::RKey rkey) { return rkey.value >> 8; }
std::size_t hash_of(wire::Qpn qpn) { return qpn.value; }

constexpr std::size_t kPlaces = (std::size(kDirectTiers) - 1) * kDirectProbes;
// The i-th row to probe.
std::size_t place_of(std::size_t hash, std::size_t i) {
  const std::size_t tier = i / kDirectProbes;
  const std::size_t first = kDirectTiers[tier];
  return first + (hash + i) % (kDirectTiers[tier + 1] - first);
}

// A search may stop at a row that was never used: insertion would have chosen it or an earlier one.
constexpr std::uint64_t kNeverUsed = 0;
bool is_published(std::uint64_t sequence) { return sequence != kNeverUsed && sequence % 2 == 0; }

bool publish_row(DirectRow* rows, std::size_t hash, const Values& values) {
  for (std::size_t i = 0; i < kPlaces; ++i) {
    auto& words = rows[place_of(hash, i)].words;
    const std::uint64_t sequence = words[0].load(std::memory_order_relaxed);
    if (is_published(sequence)) continue;
    const std::uint64_t odd = sequence | 1;
    words[0].store(odd, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t v = 0; v < kValues; ++v) words[v + 1].store(values[v], std::memory_order_relaxed);
    words[0].store(odd + 1, std::memory_order_release);
    return true;
  }
  return false;
}

bool unpublish_row(DirectRow* rows, std::size_t hash, std::uint32_t name) {
  for (std::size_t i = 0; i < kPlaces; ++i) {
    auto& words = rows[place_of(hash, i)].words;
    const std::uint64_t sequence = words[0].load(std::memory_order_relaxed);
    if (sequence == kNeverUsed) return false;
    if (!is_published(sequence) || low(words[1].load(std::memory_order_relaxed)) != name) continue;
    words[0].store(sequence + 1, std::memory_order_release);
    return true;
  }
  return false;
}

struct Snapshot {
  Values values;
  const std::atomic<std::uint64_t>* sequence;
  std::uint64_t seen;
};

std::optional<Snapshot> find_row(const DirectRow* rows, std::size_t hash, std::uint32_t name) {
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const auto& words = rows[place_of(hash, i)].words;
    Snapshot row;
    row.sequence = &words[0];
    row.seen = words[0].load(std::memory_order_acquire);
    if (row.seen == kNeverUsed) return std::nullopt;
    if (!is_published(row.seen) || low(words[1].load(std::memory_order_relaxed)) != name) continue;
    for (std::size_t v = 0; v < kValues; ++v) row.values[v] = words[v + 1].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (words[0].load(std::memory_order_relaxed) != row.seen) return std::nullopt;
    return row;
  }
  return std::nullopt;
}

const DirectRow* rows_of(const std::uint8_t* base, unsigned kind) {
  return reinterpret_cast<const DirectRow*>(base + kChannelPage) + kind * kDirectRows;
}

}  // namespace

Result<DirectTable, ShmError> DirectTable::create() {
  OwnedFd fd = lifted(raw::memfd_create("rrdma-direct", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || !set_length(fd.get(), kDirectTableOctets)) return Failure{ShmError{ShmProblem::kMemory, errno}};
  void* base = ::mmap(nullptr, kDirectTableOctets, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return Failure{ShmError{ShmProblem::kMemory, errno}};
  DirectTable table(std::move(fd), static_cast<std::uint8_t*>(base));
  const TableHeader header{.magic = kDirectMagic, .version = kDirectVersion, .rows = kDirectRows};
  std::memcpy(base, &header, sizeof header);
  // From here on the table can be written only through the mapping above.
  if (raw::fcntl(table.fd(), F_ADD_SEALS, kSizeSeals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return Failure{ShmError{ShmProblem::kMemory, errno}};
  }
  return table;
}

DirectTable::DirectTable(DirectTable&& other) noexcept
    : fd_(std::move(other.fd_)), base_(std::exchange(other.base_, nullptr)) {}

DirectTable::~DirectTable() {
  if (base_ != nullptr) ::munmap(base_, kDirectTableOctets);
}

DirectRow* DirectTable::rows(unsigned kind) const { return const_cast<DirectRow*>(rows_of(base_, kind)); }

bool DirectTable::publish(const DirectKey& key) {
  return publish_row(
      rows(kKeyRows), hash_of(key.rkey),
      {pack(key.rkey.value, key.domain), key.address, key.length, reinterpret_cast<std::uintptr_t>(key.host),
       pack(key.access, key.only_through.value), pack(key.file, key.far ? 1 : 0), key.file_offset});
}

bool DirectTable::publish(const DirectQp& qp) {
  return publish_row(rows(kQpRows), hash_of(qp.qpn),
                     {pack(qp.qpn.value, qp.domain), pack(qp.peer_qpn.value, qp.peer), qp.access});
}

bool DirectTable::unpublish(wire::RKey rkey) {
  return unpublish_row(rows(kKeyRows), hash_of(rkey), rkey.value);
}
bool DirectTable::unpublish(wire::Qpn qpn) { return unpublish_row(rows(kQpRows), hash_of(qpn), qpn.value); }

Result<DirectTableView, ShmError> DirectTableView::open(const OwnedFd& fd) {
  const int seals = raw::fcntl(fd.get(), F_GET_SEALS);
  struct statfs about;
  if (seals < 0 || ::syscall(SYS_fstatfs, fd.get(), &about) != 0 || about.f_type != TMPFS_MAGIC) {
    return Failure{ShmError{ShmProblem::kNotMemory, errno}};
  }
  if ((static_cast<unsigned>(seals) & kSizeSeals) != kSizeSeals)
    return Failure{ShmError{ShmProblem::kNotSealed, 0}};
  if (::syscall(SYS_lseek, fd.get(), 0L, SEEK_END) != static_cast<long>(kDirectTableOctets)) {
    return Failure{ShmError{ShmProblem::kLayout, 0}};
  }
  void* base = ::mmap(nullptr, kDirectTableOctets, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return Failure{ShmError{ShmProblem::kMemory, errno}};
  DirectTableView view(static_cast<const std::uint8_t*>(base));
  TableHeader header;
  std::memcpy(&header, base, sizeof header);
  if (header.magic != kDirectMagic || header.version != kDirectVersion || header.rows != kDirectRows) {
    return Failure{ShmError{ShmProblem::kLayout, 0}};
  }
  return view;
}

DirectTableView::DirectTableView(DirectTableView&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)) {}

DirectTableView::~DirectTableView() {
  if (base_ != nullptr) ::munmap(const_cast<std::uint8_t*>(base_), kDirectTableOctets);
}

std::optional<Found<DirectKey>> DirectTableView::find(wire::RKey rkey) const {
  const auto row = find_row(rows_of(base_, kKeyRows), hash_of(rkey), rkey.value);
  if (!row) return std::nullopt;
  const Values& v = row->values;
  return Found<DirectKey>{{.rkey = rkey,
                           .address = v[1],
                           .length = v[2],
                           .host = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(v[3])),
                           .access = low(v[4]),
                           .domain = high(v[0]),
                           .only_through = wire::Qpn(high(v[4])),
                           .file = low(v[5]),
                           .file_offset = v[6],
                           .far = high(v[5]) != 0},
                          row->sequence,
                          row->seen};
}

std::optional<Found<DirectQp>> DirectTableView::find(wire::Qpn qpn) const {
  const auto row = find_row(rows_of(base_, kQpRows), hash_of(qpn), qpn.value);
  if (!row) return std::nullopt;
  const Values& v = row->values;
  return Found<DirectQp>{{.qpn = qpn,
                          .peer_qpn = wire::Qpn(low(v[1])),
                          .peer = high(v[1]),
                          .access = low(v[2]),
                          .domain = high(v[0])},
                         row->sequence,
                         row->seen};
}

}  // namespace rrdma::link
