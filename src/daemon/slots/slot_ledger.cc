#include "daemon/slots/slot_ledger.h"

#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "base/process_facts.h"

namespace rrdma::daemon {
namespace {

constexpr std::uint32_t kLedgerMagic = 0x52524c47;  // "RRLG"
constexpr std::uint32_t kLedgerVersion = 3;

// The layout in the memfd.
struct SharedRow {
  std::uint32_t held = 0;
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t next_index = 0;
  std::uint64_t user_namespace_of_holder = 0;
  std::uint64_t pid_namespace_of_holder = 0;
  std::uint64_t pid_namespace = 0;
  std::uint64_t start_time = 0;
  std::uint64_t freed_order = 0;
  std::uint32_t group_count = 0;
  std::uint32_t reserved = 0;
  std::array<GroupRow, kGroupsPerSlotMax> groups{};
};

// Rows that were never written occupy no pages.
struct SharedLedger {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t relayed;
  std::uint32_t reserved;
  std::array<SharedRow, control::kSlotCount> rows;
};
static_assert(std::is_trivially_copyable_v<SharedLedger>);

SharedLedger& shared(void* base) { return *static_cast<SharedLedger*>(base); }

}  // namespace

std::uint64_t start_time_of(pid_t pid) {
  const auto stat = stat_of_process(pid);
  return !stat || stat->state == 'Z' || stat->state == 'X' ? 0 : stat->start_ticks;
}

SlotLedger::SlotLedger(OwnedFd fd, void* base, KeySource& keys)
    : fd_(std::move(fd)), base_(base), rows_(control::kSlotCount) {
  for (Slot slot = 0; slot < control::kSlotCount; ++slot)
    rows_[slot].next_index = static_cast<std::uint16_t>(keys.below(control::qpns_of(slot).count));
}

Result<SlotLedger, int> SlotLedger::create(KeySource& keys, bool relayed) {
  OwnedFd fd = lifted(raw::memfd_create("rrdma-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Failure{errno};
  if (raw::ftruncate(fd.get(), sizeof(SharedLedger)) < 0) return Failure{errno};
  (void)raw::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* base = ::mmap(nullptr, sizeof(SharedLedger), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return Failure{errno};
  shared(base).magic = kLedgerMagic;
  shared(base).version = kLedgerVersion;
  shared(base).relayed = relayed ? 1 : 0;
  SlotLedger ledger(std::move(fd), base, keys);
  ledger.relayed_ = relayed;
  return ledger;
}

std::optional<SlotLedger> SlotLedger::adopt(OwnedFd fd, KeySource& keys) {
  struct stat status {};
  const int seals = raw::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return std::nullopt;
  if (::fstat(fd.get(), &status) < 0 || status.st_size != sizeof(SharedLedger)) return std::nullopt;
  void* base = ::mmap(nullptr, sizeof(SharedLedger), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return std::nullopt;
  SlotLedger ledger(std::move(fd), base, keys);
  // One copy, because the memory may change concurrently; by read(), which allocates no pages for unwritten
  // rows.
  const auto copy = std::make_unique<SharedLedger>();
  if (::pread(ledger.fd(), copy.get(), sizeof(SharedLedger), 0) != sizeof(SharedLedger)) return std::nullopt;
  if (copy->magic != kLedgerMagic || copy->version != kLedgerVersion) return std::nullopt;
  ledger.relayed_ = copy->relayed == 1;
  for (Slot slot = 0; slot < control::kSlotCount; ++slot) {
    const SharedRow& from = copy->rows[slot];
    if (from.held == 0 && from.freed_order == 0)
      continue;  // never held: starts at a random place of our
                 // choice
    LedgerRow& row = ledger.rows_[slot];
    row.held = from.held != 0;
    row.holder = {.pid = static_cast<pid_t>(from.pid),
                  .uid = from.uid,
                  .namespaces = {.user = from.user_namespace_of_holder, .pid = from.pid_namespace_of_holder}};
    row.pid_namespace = from.pid_namespace;
    row.start_time = from.start_time;
    row.freed_order = from.freed_order;
    row.next_index = static_cast<std::uint16_t>(from.next_index % control::qpns_of(slot).count);
    const std::size_t groups = std::min<std::size_t>(from.group_count, kGroupsPerSlotMax);
    row.groups.assign(from.groups.begin(), from.groups.begin() + static_cast<std::ptrdiff_t>(groups));
    ledger.last_order_ = std::max(ledger.last_order_, row.freed_order);
  }
  return ledger;
}

SlotLedger::SlotLedger(SlotLedger&& other) noexcept
    : fd_(std::move(other.fd_)),
      base_(std::exchange(other.base_, nullptr)),
      rows_(std::move(other.rows_)),
      last_order_(other.last_order_),
      relayed_(other.relayed_) {}

SlotLedger& SlotLedger::operator=(SlotLedger&& other) noexcept {
  if (this != &other) {
    if (base_ != nullptr) ::munmap(base_, sizeof(SharedLedger));
    fd_ = std::move(other.fd_);
    base_ = std::exchange(other.base_, nullptr);
    rows_ = std::move(other.rows_);
    last_order_ = other.last_order_;
    relayed_ = other.relayed_;
  }
  return *this;
}

SlotLedger::~SlotLedger() {
  if (base_ != nullptr) ::munmap(base_, sizeof(SharedLedger));
}

void SlotLedger::give_sockets_out() {
  relayed_ = false;
  shared(base_).relayed = 0;
}

// `held` last: a daemon that is killed before that has told no program.
void SlotLedger::write(Slot slot) {
  const LedgerRow& row = rows_[slot];
  SharedRow to{.pid = static_cast<std::uint32_t>(row.holder.pid),
               .uid = row.holder.uid,
               .next_index = row.next_index,
               .user_namespace_of_holder = row.holder.namespaces.user,
               .pid_namespace_of_holder = row.holder.namespaces.pid,
               .pid_namespace = row.pid_namespace,
               .start_time = row.start_time,
               .freed_order = row.freed_order,
               .group_count = static_cast<std::uint32_t>(row.groups.size())};
  std::copy(row.groups.begin(), row.groups.end(), to.groups.begin());
  SharedRow& place = shared(base_).rows[slot];
  to.held = place.held;
  std::memcpy(&place, &to, sizeof to);
  std::atomic_ref<std::uint32_t>(place.held).store(row.held ? 1 : 0, std::memory_order_release);
}

void SlotLedger::hold(Slot slot, const control::PeerIdentity& holder) {
  hold(slot, holder, rows_[slot].next_index);
}

void SlotLedger::hold(Slot slot, const control::PeerIdentity& holder, std::uint16_t next_index) {
  LedgerRow& row = rows_[slot];
  row.held = true;
  row.holder = holder;
  row.pid_namespace = control::own_namespaces().pid;
  row.start_time = holder.pid > 0 ? start_time_of(holder.pid) : 0;
  row.next_index = static_cast<std::uint16_t>(next_index % control::qpns_of(slot).count);
  write(slot);
}

void SlotLedger::free(Slot slot, std::uint16_t next_index) {
  LedgerRow& row = rows_[slot];
  row.held = false;
  row.holder = {};
  row.next_index = static_cast<std::uint16_t>(next_index % control::qpns_of(slot).count);
  row.freed_order = ++last_order_;
  write(slot);
}

bool SlotLedger::join(Slot slot, const GroupRow& group) {
  std::vector<GroupRow>& groups = rows_[slot].groups;
  if (std::find(groups.begin(), groups.end(), group) != groups.end()) return true;
  if (groups.size() >= kGroupsPerSlotMax) return false;
  groups.push_back(group);
  write(slot);
  return true;
}

void SlotLedger::leave(Slot slot, const GroupRow& group) {
  std::erase(rows_[slot].groups, group);
  write(slot);
}

SlotLedger::Holder SlotLedger::holder_state(Slot slot) const {
  const LedgerRow& row = rows_[slot];
  if (row.holder.pid <= 0 || row.start_time == 0 || row.pid_namespace != control::own_namespaces().pid)
    return Holder::kUnknown;
  return start_time_of(row.holder.pid) == row.start_time ? Holder::kAlive : Holder::kDead;
}

bool SlotLedger::may_be_holder(Slot slot, const control::PeerIdentity& claimant) const {
  const LedgerRow& row = rows_[slot];
  if (!row.held) return true;
  const bool same_numbers = row.pid_namespace == control::own_namespaces().pid;
  if (same_numbers && row.holder.pid > 0 && claimant.pid > 0)
    return row.holder.pid == claimant.pid && row.holder.uid == claimant.uid &&
           row.start_time == start_time_of(claimant.pid);
  return control::is_one_pod(row.holder, claimant);
}

}  // namespace rrdma::daemon
