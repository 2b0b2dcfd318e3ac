// Two reads of one table whose rows change in between. The initiator maps a region of its target (this same
// process) and uses it while the input writes into the rows as a hostile target can: with a new sequence or
// without one, into lengths, addresses, rights and files. The target proves that operations read and write
// only the target's own file, wherever the rows point, and that none costs more than a copy.
#include <linux/memfd.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/guarded_copy.h"
#include "cost.h"
#include "input.h"
#include "link/shm/direct_peer.h"
#include "objects/memory.h"

namespace rrdma::mapped_rows_fuzz {

using namespace rrdma::link;

constexpr int kStepsMax = 64;
constexpr std::size_t kFileOctets = 8192;
constexpr std::uint64_t kAddress = 0x10000;
constexpr std::size_t kNear = 65536;  // of the initiator's memory at each side that is looked at
constexpr std::uint8_t kOwn = 0x5a;   // what the initiator's memory holds, and nothing else does
constexpr wire::Qpn kTarget{0x010002}, kInitiator{0x020003};
constexpr wire::RKey kKeys[] = {wire::RKey{0x100}, wire::RKey{0x200}};
// Nothing lies there: what the kernel copies is a fault, and only what is mapped has an effect.
constexpr std::uint64_t kNowhere = 0xffff'8000'0000'0000;

void on_fault(int, siginfo_t*, void* context) {
  if (!recover_from_fault(context)) ::_exit(99);
}

// Memory of the initiator with a hole of the size of a region's mapping. The kernel maps at the highest free
// address. The constructor fills all free places above, so the region lies in the hole, between memory of the
// initiator.
struct Arena {
  static constexpr std::size_t kOctets = 1 << 20, kHole = kFileOctets;
  static constexpr int kFillersMax = 100'000;
  Arena() {
    base = static_cast<std::uint8_t*>(map(kOctets));
    std::memset(base, kOwn, kOctets);
    void* filler = map(kHole);
    for (int i = 0; i < kFillersMax && filler > base; ++i) filler = map(kHole);
    ::munmap(filler, kHole);
    hole = base + kOctets / 2;
    ::munmap(hole, kHole);
  }
  static void* map(std::size_t octets) {
    void* const at = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    RRDMA_ASSERT(at != MAP_FAILED);
    return at;
  }
  std::uint8_t* base = nullptr;
  std::uint8_t* hole = nullptr;
};
const Arena& arena() {
  static const Arena made;
  return made;
}

class World {
 public:
  explicit World(fuzz::Input input) : input_(input) {
    (void)arena();
    RRDMA_ASSERT(raw::ftruncate(file_.get(), kFileOctets) == 0);
    for (std::size_t i = 0; i < std::size(kKeys); ++i) RRDMA_ASSERT(table_->publish(key(kKeys[i])));
    RRDMA_ASSERT(table_->publish(DirectQp{.qpn = kTarget,
                                          .peer_qpn = kInitiator,
                                          .peer = 1,
                                          .access = objects::kRemoteWrite | objects::kRemoteRead,
                                          .domain = 5}));
    find_rows();
    DirectIntroduction introduction;
    introduction.nonce_address = reinterpret_cast<std::uintptr_t>(nonce_.data());
    introduction.nonce = nonce_;
    introduction.peer = 1;
    const OwnedFd table(raw::fcntl(table_->fd(), F_DUPFD_CLOEXEC, 3));
    auto peer = DirectPeer::open(table, ::getpid(), introduction, in_use_);
    RRDMA_ASSERT(peer.ok());
    peer_.emplace(std::move(*peer));
    fence_in();
  }
  void run() {
    for (int i = 0; i < kStepsMax && !input_.empty(); ++i) {
      const fuzz::Cost cost;
      switch (input_.below(4)) {
        case 0: change(false); break;
        case 1: change(true); break;
        default: use(); break;
      }
      check();
    }
  }

 private:
  DirectKey key(wire::RKey rkey) const {
    return {.rkey = rkey,
            .address = kAddress,
            .length = kFileOctets / 2,
            .host = reinterpret_cast<const void*>(kNowhere),
            .access = objects::kRemoteWrite | objects::kRemoteRead | objects::kRemoteAtomic,
            .domain = 5,
            .file = static_cast<std::uint32_t>(file_.get()) + 1,
            .file_offset = kFileOctets / 4};
  }

  // A line of /proc/self/maps with both words.
  static std::uint8_t* mapping_of(const char* rights, const char* name, std::size_t* size = nullptr) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(rights) == std::string::npos || line.find(name) == std::string::npos) continue;
      char* dash = nullptr;
      const auto begin = std::strtoull(line.c_str(), &dash, 16);
      if (size != nullptr) *size = std::strtoull(dash + 1, nullptr, 16) - begin;
      return reinterpret_cast<std::uint8_t*>(begin);
    }
    return nullptr;
  }

  void find_rows() {
    std::uint8_t* const base = mapping_of(" rw-s ", "memfd:rrdma-direct");
    RRDMA_ASSERT(base != nullptr);
    auto* const rows = reinterpret_cast<DirectRow*>(base + kChannelPage);
    for (std::size_t i = 0; i < std::size(kKeys); ++i) {
      rows_[i] = std::find_if(rows, rows + kDirectRows, [&](const DirectRow& row) {
        return static_cast<std::uint32_t>(row.words[1].load()) == kKeys[i].value;
      });
      RRDMA_ASSERT(rows_[i] != rows + kDirectRows);
    }
  }

  // Maps the first region, and looks whether it lies in the hole.
  void fence_in() {
    std::array<std::uint8_t, 8> octets{};
    (void)peer_->write({kInitiator, kTarget, kKeys[0], kAddress},
                       std::array{objects::PayloadSpan{octets.data(), 8}});
    fenced_ = mapping_of(" rw-s ", "memfd:fuzz-target") == arena().hole;
  }

  // A word of a row; the address in the target stays where nothing is.
  void change(bool with_sequence) {
    DirectRow& row = *rows_[input_.below(2)];
    const std::size_t word = 1 + input_.below(7);
    if (word == 4) return;
    const std::uint64_t sequence = row.words[0].load();
    std::uint64_t value = row.words[word].load();
    switch (input_.below(4)) {
      case 0: value = std::uint64_t{1} << input_.below(64); break;
      case 1: value += static_cast<std::uint64_t>(input_.word()) << input_.below(48); break;
      case 2: value -= static_cast<std::uint64_t>(input_.word()) << input_.below(48); break;
      default: value ^= std::uint64_t{1} << input_.below(64); break;
    }
    row.words[word].store(value);
    if (with_sequence) row.words[0].store(sequence + 2);
  }

  void use() {
    const wire::RKey rkey = kKeys[input_.below(2)];
    std::uint64_t address = kAddress + input_.word();
    if (input_.below(2) != 0) address += static_cast<std::uint64_t>(input_.octet()) << input_.below(48);
    if (input_.below(4) == 0) address = kAddress - input_.word();
    const std::size_t length = 1 + input_.word() % sizeof buffer_;
    const objects::DirectTarget target{kInitiator, kTarget, rkey, address};
    switch (input_.below(3)) {
      case 0: (void)peer_->write(target, std::array{objects::PayloadSpan{buffer_, length}}); break;
      case 1: {
        std::fill_n(read_, sizeof read_, std::uint8_t{0});
        (void)peer_->read(target, std::array{objects::MutableSpan{read_, length}});
        RRDMA_ASSERT(std::find(read_, read_ + length, kOwn) == read_ + length);
        break;
      }
      default: {
        objects::AtomicCall call{nullptr, false, 1, 0, 0};
        (void)peer_->atomic(target, call);
        break;
      }
    }
  }

  void check() const {
    if (!fenced_) return;
    static const std::vector<std::uint8_t> kPattern(kNear, kOwn);
    RRDMA_ASSERT(std::memcmp(arena().hole - kNear, kPattern.data(), kNear) == 0);
    RRDMA_ASSERT(std::memcmp(arena().hole + Arena::kHole, kPattern.data(), kNear) == 0);
  }

  fuzz::Input input_;
  OwnedFd file_{raw::memfd_create("fuzz-target", MFD_CLOEXEC)};
  Result<DirectTable, ShmError> table_ = DirectTable::create();
  std::array<DirectRow*, std::size(kKeys)> rows_{};
  std::array<std::uint8_t, DirectIntroduction::kNonceOctets> nonce_{1, 2, 3};
  std::atomic<std::uint64_t> in_use_{0};
  std::optional<DirectPeer> peer_;
  bool fenced_ = false;
  std::uint8_t buffer_[4096] = {};
  std::uint8_t read_[4096] = {};
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::sigaction(SIGBUS, &action, nullptr);
  World(fuzz::Input({data, size})).run();
  return 0;
}

}  // namespace rrdma::mapped_rows_fuzz
