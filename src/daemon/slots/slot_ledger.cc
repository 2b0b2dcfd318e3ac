#include "daemon/slots/slot_ledger.h"

#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace rrdma::daemon {
namespace {

constexpr std::uint32_t kLedgerMagic = 0x52524c47;  // "RRLG"
constexpr std::uint32_t kLedgerVersion = 1;

struct LedgerLayout {
  std::uint32_t magic = kLedgerMagic;
  std::uint32_t version = kLedgerVersion;
  std::uint64_t last_order = 0;
  std::array<LedgerRow, control::kSlotCount> rows{};
};
static_assert(std::is_trivially_copyable_v<LedgerLayout>);

LedgerLayout& layout(void* base) { return *static_cast<LedgerLayout*>(base); }

std::uint64_t own_pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::uint64_t start_time_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const OwnedFd file(raw::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024] = {};
  if (!file || raw::read(file.get(), text, sizeof text - 1) <= 0) return 0;
  // The name of the program stands in parentheses and may contain any of them; the start time is the
  // 20th field behind it.
  const char* at = std::strrchr(text, ')');
  if (at != nullptr && at[1] == ' ' && (at[2] == 'Z' || at[2] == 'X')) return 0;  // ended, not yet waited for
  for (int field = 0; at != nullptr && field < 20; ++field) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : std::strtoull(at + 1, nullptr, 10);
}

Result<SlotLedger, int> SlotLedger::create(Prng& prng) {
  OwnedFd fd = lifted(raw::memfd_create("rrdma-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Failure{errno};
  if (raw::ftruncate(fd.get(), sizeof(LedgerLayout)) < 0) return Failure{errno};
  (void)raw::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* base = ::mmap(nullptr, sizeof(LedgerLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return Failure{errno};
  auto* fresh = new (base) LedgerLayout;
  for (LedgerRow& row : fresh->rows) row.next_index = static_cast<std::uint32_t>(prng.below(0x10000));
  return SlotLedger(std::move(fd), base);
}

std::optional<SlotLedger> SlotLedger::adopt(OwnedFd fd) {
  struct stat status {};
  const int seals = raw::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return std::nullopt;
  if (::fstat(fd.get(), &status) < 0 || status.st_size != sizeof(LedgerLayout)) return std::nullopt;
  void* base = ::mmap(nullptr, sizeof(LedgerLayout), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) return std::nullopt;
  SlotLedger ledger(std::move(fd), base);
  if (layout(base).magic != kLedgerMagic || layout(base).version != kLedgerVersion) return std::nullopt;
  for (LedgerRow& row : layout(base).rows) {
    row.next_index &= 0xffff;
    row.group_count = std::min<std::uint32_t>(row.group_count, kGroupsPerSlotMax);
  }
  return ledger;
}

SlotLedger::SlotLedger(SlotLedger&& other) noexcept
    : fd_(std::move(other.fd_)), base_(std::exchange(other.base_, nullptr)) {}

SlotLedger& SlotLedger::operator=(SlotLedger&& other) noexcept {
  if (this != &other) {
    if (base_ != nullptr) ::munmap(base_, sizeof(LedgerLayout));
    fd_ = std::move(other.fd_);
    base_ = std::exchange(other.base_, nullptr);
  }
  return *this;
}

SlotLedger::~SlotLedger() {
  if (base_ != nullptr) ::munmap(base_, sizeof(LedgerLayout));
}

LedgerRow& SlotLedger::row(std::uint8_t slot) { return layout(base_).rows[slot]; }

void SlotLedger::hold(std::uint8_t slot, const control::PeerIdentity& holder) {
  LedgerRow& held = row(slot);
  held.pid = static_cast<std::uint32_t>(holder.pid);
  held.uid = holder.uid;
  held.pid_namespace = own_pid_namespace();
  held.start_time = holder.pid > 0 ? start_time_of(holder.pid) : 0;
  // Last: a daemon that is killed meanwhile has told nobody of a holder.
  std::atomic_ref<std::uint32_t>(held.held).store(1, std::memory_order_release);
}

void SlotLedger::free(std::uint8_t slot, std::uint16_t next_index) {
  LedgerRow& freed = row(slot);
  freed.held = 0;
  freed.pid = 0;
  freed.next_index = next_index;
  freed.freed_order = ++layout(base_).last_order;
}

SlotLedger::Holder SlotLedger::holder_state(std::uint8_t slot) {
  const LedgerRow& held = row(slot);
  if (held.pid == 0 || held.start_time == 0 || held.pid_namespace != own_pid_namespace())
    return Holder::kUnknown;
  return start_time_of(static_cast<pid_t>(held.pid)) == held.start_time ? Holder::kAlive : Holder::kDead;
}

}  // namespace rrdma::daemon
