// Direct access to memory in a file: the initiator maps it, and the results equal those of a copy by the
// kernel.
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/guarded_copy.h"
#include "link/shm/direct_sides.h"
#include "link/shm/test_silent_file.h"

namespace rrdma::link::mapped_test {

void on_fault(int, siginfo_t*, void* context) {
  if (!recover_from_fault(context)) ::_exit(99);
}

void guard_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::sigaction(SIGBUS, &action, nullptr);
}

// Memory of a target, in a file with a page in front of it.
struct FileMemory {
  static constexpr std::size_t kBefore = 65536;
  explicit FileMemory(std::size_t length)
      : octets(length), fd(raw::memfd_create("mapped-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (raw::ftruncate(fd.get(), static_cast<std::int64_t>(kBefore + octets)) != 0) ::_exit(92);
    void* const at = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), kBefore);
    if (at == MAP_FAILED) ::_exit(93);
    data = static_cast<std::uint8_t*>(at);
  }
  ~FileMemory() { ::munmap(data, octets); }
  FileMemory(const FileMemory&) = delete;
  [[nodiscard]] DirectKey key(wire::RKey rkey = kRkey, std::uint32_t access = kAllRights) const {
    return {.rkey = rkey,
            .address = kAddress,
            .length = octets,
            .host = data,
            .access = access,
            .domain = 5,
            .file = static_cast<std::uint32_t>(fd.get()) + 1,
            .file_offset = kBefore};
  }
  std::size_t octets;
  OwnedFd fd;
  std::uint8_t* data = nullptr;
};

TEST(Mapped, OctetsGoAndComeBackWhole) {
  run_two(
      [](DirectSide& side, Board& board) {
        const FileMemory memory(3'000'000);
        std::fill_n(memory.data, memory.octets, std::uint8_t{0xee});
        side.publish_qp();
        STEP(1, side.link->publish(memory.key()));
        board.stage = 1;
        STEP(2, wait_for(board.other_stage, 1));
        std::vector<std::uint8_t> expected(2'000'000);
        fill_content(expected, 1);
        STEP(3, std::equal(expected.begin(), expected.end(), memory.data + 17));
        STEP(4, memory.data[16] == 0xee && memory.data[2'000'017] == 0xee);
        return 0;
      },
      [](DirectSide& side, Board& board) {
        guard_faults();
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        std::vector<std::uint8_t> data(2'000'000);
        std::vector<std::uint8_t> back(data.size());
        fill_content(data, 1);
        STEP(3, side.write(kAddress + 17, data.data(), data.size()));
        STEP(4, side.read(kAddress + 17, back.data(), back.size()));
        STEP(5, back == data);
        STEP(6, side.write(kAddress + 2'999'999, data.data(), 1));
        STEP(7, !side.write(kAddress + 2'999'999, data.data(), 2));
        STEP(8, !side.write(kAddress - 1, data.data(), 1));
        for (std::size_t length = 1; length <= 20; ++length) {
          STEP(9, side.write(kAddress + 2'500'000 + length, data.data() + length, length));
          STEP(10, side.read(kAddress + 2'500'000 + length, back.data(), length));
          STEP(11, std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(length),
                              data.begin() + static_cast<std::ptrdiff_t>(length)));
        }
        STEP(12, counter(*side.link, "shm_direct_mapped") == 43);
        STEP(13, counter(*side.link, "shm_direct_done") == 43);
        board.other_stage = 1;
        return 0;
      });
}

TEST(Mapped, AtomicsAreTheProcessorsOwn) {
  constexpr std::uint64_t kTurns = 200'000;
  run_two(
      [](DirectSide& side, Board& board) {
        const FileMemory memory(4096);
        auto* const words = reinterpret_cast<std::uint64_t*>(memory.data);
        words[1] = 7;
        side.publish_qp();
        STEP(1,
             side.link->publish(memory.key(wire::RKey{0x100}, objects::kRemoteRead | objects::kRemoteWrite)));
        STEP(2, side.link->publish(memory.key(wire::RKey{0x200}, objects::kRemoteAtomic)));
        STEP(3, side.link->publish(memory.key()));
        std::vector<std::uint64_t> elsewhere(2, 5);  // not in a file
        DirectKey plain = memory.key(wire::RKey{0x300});
        plain.host = elsewhere.data();
        plain.length = 16;
        plain.file = 0;
        STEP(4, side.link->publish(plain));
        board.stage = 1;
        std::uint64_t own = 0;  // while the other side adds
        for (; board.other_stage < 1; ++own) __atomic_fetch_add(&words[0], 1, __ATOMIC_SEQ_CST);
        STEP(5, own > 0);
        STEP(6, words[0] == own + kTurns && words[1] == 9 && words[2] == 1);
        STEP(7, elsewhere[0] == 5);
        return 0;
      },
      [](DirectSide& side, Board& board) {
        guard_faults();
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        std::uint64_t found = 0;
        for (std::uint64_t i = 0; i < kTurns; ++i) STEP(3, side.add(kAddress, 1, found));
        STEP(4, side.swap(kAddress + 8, 7, 9, found) && found == 7);
        STEP(5, side.swap(kAddress + 8, 7, 11, found) && found == 9);
        STEP(6, side.add(kAddress + 16, 1, found, wire::RKey{0x200}) && found == 0);
        STEP(7, !side.add(kAddress, 1, found, wire::RKey{0x100}));
        STEP(8, !side.add(kAddress, 1, found, wire::RKey{0x300}));
        STEP(9, !side.add(kAddress + 4, 1, found));
        STEP(10, !side.add(kAddress + 4096, 1, found) && !side.add(kAddress + 4092, 1, found));
        STEP(11, counter(*side.link, "shm_direct_mapped") == kTurns + 3);
        board.other_stage = 1;
        return 0;
      });
}

TEST(Mapped, RightsAndRetirementHoldAsEver) {
  run_two(
      [](DirectSide& side, Board& board) {
        const FileMemory memory(65536);
        side.publish_qp();
        STEP(1, side.link->publish(memory.key(wire::RKey{0x100}, objects::kRemoteRead)));
        STEP(2, side.link->publish(memory.key()));
        board.stage = 1;
        STEP(3, wait_for(board.other_stage, 1));
        STEP(4, side.link->retire(kRkey));
        board.stage = 2;
        STEP(5, wait_for(board.other_stage, 2));
        STEP(6, memory.data[0] == 1);
        // The same key again, at another place of the file.
        DirectKey moved = memory.key();
        moved.file_offset -= 4096;
        moved.length = 4096;
        STEP(7, side.link->publish(moved));
        board.stage = 3;
        STEP(8, wait_for(board.other_stage, 3));
        STEP(9, memory.data[0] == 1);
        return 0;
      },
      [](DirectSide& side, Board& board) {
        guard_faults();
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        const std::uint8_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, twos[8] = {2, 2, 2, 2, 2, 2, 2, 2};
        std::uint8_t back[8];
        STEP(3, side.write(kAddress, ones, 8));
        STEP(4, !side.write(kAddress, twos, 8, wire::RKey{0x100}));  // read only
        board.other_stage = 1;
        STEP(5, wait_for(board.stage, 2));
        STEP(6, !side.write(kAddress, twos, 8));
        STEP(7, !side.read(kAddress, back, 8));
        board.other_stage = 2;
        STEP(8, wait_for(board.stage, 3));
        STEP(9, side.write(kAddress, twos, 8));
        STEP(10, counter(*side.link, "shm_direct_mapped") == 2);
        board.other_stage = 3;
        return 0;
      });
}

// A process that truncates its file has removed the pages. This is a fault, and packets determine the error.
TEST(Mapped, AFileThatWasCutIsAFaultAndLeftToPackets) {
  run_two(
      [](DirectSide& side, Board& board) {
        const FileMemory memory(1 << 20);
        side.publish_qp();
        STEP(1, side.link->publish(memory.key()));
        board.stage = 1;
        STEP(2, wait_for(board.other_stage, 1));
        STEP(3, raw::ftruncate(memory.fd.get(), FileMemory::kBefore) == 0);
        board.stage = 2;
        return wait_for(board.other_stage, 2) ? 0 : 4;
      },
      [](DirectSide& side, Board& board) {
        guard_faults();
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        std::vector<std::uint8_t> data(1000, 1);
        STEP(3, side.write(kAddress, data.data(), data.size()));
        board.other_stage = 1;
        STEP(4, wait_for(board.stage, 2));
        // Small copies take another path.
        for (const std::size_t octets : {data.size(), std::size_t{8}}) {
          STEP(5, !side.write(kAddress, data.data(), octets));
          STEP(6, !side.read(kAddress, data.data(), octets));
        }
        STEP(7, counter(*side.link, "shm_direct_fault") == 4);
        board.other_stage = 2;
        return 0;
      });
}

// The start of the first mapping of this process whose line in /proc/self/maps has both words; null if there
// is none.
std::uint8_t* mapping_of(const char* rights, const char* name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(rights) == std::string::npos || line.find(name) == std::string::npos) continue;
    return reinterpret_cast<std::uint8_t*>(std::strtoull(line.c_str(), nullptr, 16));
  }
  return nullptr;
}

// Changes only the length in the row of a key. The sequence stays, so the row still looks valid.
bool lengthen_row(wire::RKey rkey, std::uint64_t length) {
  std::uint8_t* const table = mapping_of(" rw-s ", "memfd:rrdma-direct");
  if (table == nullptr) return false;
  auto* const rows = reinterpret_cast<DirectRow*>(table + kChannelPage);
  for (std::size_t row = 0; row < kDirectRows; ++row) {
    if (static_cast<std::uint32_t>(rows[row].words[1].load()) != rkey.value) continue;
    rows[row].words[3].store(length);
    return true;
  }
  return false;
}

// A hostile target makes a region longer after it was mapped. The initiator's own memory lies behind the
// mapping.
TEST(Mapped, ARowThatChangesBehindItsSequenceReachesNothingOfTheInitiators) {
  static constexpr wire::RKey kOther{0x400};
  run_two(
      [](DirectSide& side, Board& board) {
        const FileMemory memory(65536), other(4096);
        side.publish_qp();
        STEP(1, side.link->publish(memory.key()) && side.link->publish(other.key(kOther)));
        board.stage = 1;
        STEP(2, wait_for(board.other_stage, 1));
        STEP(3, lengthen_row(kRkey, std::uint64_t{1} << 46));
        board.stage = 2;
        return wait_for(board.other_stage, 2) ? 0 : 4;
      },
      [](DirectSide& side, Board& board) {
        guard_faults();
        // The kernel places mappings from the top down, so an earlier one lies behind a later one.
        void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        auto* const own = static_cast<std::uint8_t*>(page);
        own[0] = 0x11;
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        const std::uint8_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        std::uint8_t back[8] = {};
        STEP(3, side.write(kAddress, ones, 8));
        const std::uint8_t* const mapped = mapping_of(" rw-s ", "memfd:mapped-test");
        STEP(4, mapped != nullptr && mapped < own);
        STEP(5, side.write(kAddress, ones, 8, kOther));  // the initiator reads the first row again next time
        board.other_stage = 1;
        STEP(6, wait_for(board.stage, 2));
        const std::uint64_t there = kAddress + static_cast<std::uint64_t>(own - mapped);
        (void)side.write(there, ones, 8);
        STEP(7, own[0] == 0x11);
        std::uint64_t found = 0;
        (void)side.add(there, 1, found);
        STEP(8, own[0] == 0x11);
        (void)side.write(kAddress, ones, 8, kOther);
        (void)side.read(there, back, 8);
        STEP(9, back[0] != 0x11);
        board.other_stage = 2;
        return 0;
      });
}

// Not a file, too short, not in memory, or not writable by the target itself: the kernel copies, as for any
// other memory.
TEST(Mapped, WhatCannotBeMappedIsCopiedByTheKernel) {
  run_two(
      [](DirectSide& side, Board& board) {
        const FileMemory memory(65536);
        std::array<int, 2> pipe;
        STEP(1, ::pipe(pipe.data()) == 0);
        const OwnedFd program(raw::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
        side.publish_qp();
        std::uint32_t name = 1;
        for (const int fd : {pipe[0], pipe[1], program.get(), 9999}) {
          DirectKey key = memory.key(wire::RKey{name++ << 8});
          key.file = static_cast<std::uint32_t>(fd) + 1;
          STEP(2, side.link->publish(key));
        }
        DirectKey key = memory.key(wire::RKey{name++ << 8});
        key.file_offset += 4096;  // ends beyond the file
        STEP(3, side.link->publish(key));
        key = memory.key(wire::RKey{name++ << 8});
        key.file_offset = ~std::uint64_t{0} - 4095;
        STEP(4, side.link->publish(key));
        key = memory.key(wire::RKey{name++ << 8}, objects::kRemoteRead);
        key.file = static_cast<std::uint32_t>(program.get()) + 1;
        STEP(4, side.link->publish(key));
        const std::string again = "/proc/self/fd/" + std::to_string(memory.fd.get());
        const OwnedFd read_only(raw::open(again.c_str(), O_RDONLY | O_CLOEXEC));
        key = memory.key(wire::RKey{name++ << 8});
        key.file = static_cast<std::uint32_t>(read_only.get()) + 1;
        STEP(4, read_only.valid() && side.link->publish(key));
        board.stage = 1;
        STEP(5, wait_for(board.other_stage, 1));
        STEP(6, memory.data[0] == 7);
        return 0;
      },
      [](DirectSide& side, Board& board) {
        guard_faults();
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        const std::uint8_t sevens[8] = {7, 7, 7, 7, 7, 7, 7, 7};
        for (std::uint32_t name = 1; name <= 6; ++name)
          STEP(3, side.write(kAddress, sevens, 8, wire::RKey{name << 8}));
        std::uint8_t back[8] = {};
        STEP(4, side.link->direct_read(side.path, {kInitiatorQpn, kTargetQpn, wire::RKey{7 << 8}, kAddress},
                                       std::array{objects::MutableSpan{back, 8}}));
        STEP(4, back[0] == 7 && side.write(kAddress, sevens, 8, wire::RKey{8 << 8}));
        STEP(4, counter(*side.link, "shm_direct_done") == 8);
        STEP(5, counter(*side.link, "shm_direct_mapped") == 0);
        board.other_stage = 1;
        return 0;
      });
}

// The initiator neither asks about the file nor waits for its close.
TEST(Mapped, AFileThatNeverAnswersDelaysNobody) {
  const SilentFile file;
  if (!file.works()) GTEST_SKIP() << "needs root and FUSE";
  const int silent = file.open();
  ASSERT_GE(silent, 0);
  run_two(
      [&](DirectSide& side, Board& board) {
        const FileMemory memory(4096);
        side.publish_qp();
        DirectKey key = memory.key();
        key.file = static_cast<std::uint32_t>(silent) + 1;
        STEP(1, side.link->publish(key));
        board.stage = 1;
        STEP(2, wait_for(board.other_stage, 1));
        STEP(3, memory.data[0] == 7);
        return 0;
      },
      [&](DirectSide& side, Board& board) {
        guard_faults();
        STEP(1, wait_for(board.stage, 1));
        STEP(2, side.meet());
        const std::uint8_t sevens[8] = {7, 7, 7, 7, 7, 7, 7, 7};
        const std::int64_t before = now_ns();
        STEP(3, side.write(kAddress, sevens, 8));
        STEP(4, now_ns() - before < 10'000'000'000);
        STEP(5, counter(*side.link, "shm_direct_mapped") == 0);
        board.other_stage = 1;
        file.end();
        return 0;
      });
  ::close(silent);
}

}  // namespace rrdma::link::mapped_test
