#include "daemon/slots/slot_ledger.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstring>

namespace rrdma::daemon::slot_ledger_test {

control::PeerIdentity self() {
  return {.pid = raw::getpid(), .uid = ::geteuid(), .namespaces = control::own_namespaces()};
}

class Ledger : public ::testing::Test {
 protected:
  SlotLedger fresh() {
    auto ledger = SlotLedger::create(keys_);
    EXPECT_TRUE(ledger.ok());
    return std::move(*ledger);
  }
  // The ledger that the next daemon would adopt.
  SlotLedger adopted(const SlotLedger& from) {
    auto ledger = SlotLedger::adopt(OwnedFd(raw::fcntl(from.fd(), F_DUPFD_CLOEXEC, 3)), keys_);
    EXPECT_TRUE(ledger.has_value());
    return std::move(*ledger);
  }
  KeySource keys_{1};
};

TEST_F(Ledger, TellsTheLivingFromTheDead) {
  SlotLedger ledger = fresh();
  ledger.hold(3, self());
  EXPECT_EQ(ledger.holder_state(3), SlotLedger::Holder::kAlive);
  ledger.hold(4, {.pid = 0, .uid = ::geteuid(), .namespaces = {}});
  EXPECT_EQ(ledger.holder_state(4), SlotLedger::Holder::kUnknown);
  const pid_t child = ::fork();
  if (child == 0) ::pause();
  ledger.hold(5, {.pid = child, .uid = ::geteuid(), .namespaces = control::own_namespaces()});
  EXPECT_EQ(ledger.holder_state(5), SlotLedger::Holder::kAlive);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(ledger.holder_state(5), SlotLedger::Holder::kDead);
}

TEST_F(Ledger, TheNextDaemonFindsWhatWasWritten) {
  SlotLedger ledger = fresh();
  const GroupRow group{.group = wire::gid_of_ipv4({239, 1, 2, 3}), .interface_index = 4};
  ledger.hold(70, self(), 4095);
  EXPECT_TRUE(ledger.join(70, group));
  ledger.free(1, 60000);
  const SlotLedger next = adopted(ledger);
  EXPECT_TRUE(next.row(70).held);
  EXPECT_EQ(next.row(70).next_index, 4095);
  EXPECT_EQ(next.row(70).groups, std::vector<GroupRow>{group});
  EXPECT_TRUE(next.may_be_holder(70, self()));
  EXPECT_FALSE(next.row(1).held);
  EXPECT_EQ(next.row(1).next_index, 60000);
  EXPECT_GT(next.row(1).freed_order, 0u);
}

TEST_F(Ledger, ASlotIsOnlyClaimedByTheProcessThatHeldIt) {
  SlotLedger ledger = fresh();
  ledger.hold(9, self());
  EXPECT_TRUE(ledger.may_be_holder(9, self()));
  auto other = self();
  other.pid = ::getppid();
  EXPECT_FALSE(ledger.may_be_holder(9, other)) << "the same user, but another process";
  EXPECT_TRUE(ledger.may_be_holder(10, other)) << "nobody is noted";
  // A holder whose pid is not valid here is identified by its user; a user of another container differs.
  auto hidden = self();
  hidden.pid = 0;
  ledger.hold(11, hidden);
  EXPECT_TRUE(ledger.may_be_holder(11, self()));
  auto elsewhere = self();
  ++elsewhere.namespaces.pid;
  EXPECT_FALSE(ledger.may_be_holder(11, elsewhere));
}

TEST_F(Ledger, ASlotHasNoMoreGroupsThanItMay) {
  SlotLedger ledger = fresh();
  for (std::uint32_t i = 0; i < kGroupsPerSlotMax; ++i) EXPECT_TRUE(ledger.join(2, {.interface_index = i}));
  EXPECT_TRUE(ledger.join(2, {.interface_index = 5})) << "it is there";
  EXPECT_FALSE(ledger.join(2, {.interface_index = 99}));
  ledger.leave(2, {.interface_index = 7});
  EXPECT_TRUE(ledger.join(2, {.interface_index = 99}));
}

// Every holder of the parking can write into the ledger. The running daemon does not read it, and the next
// one rejects everything that is out of bounds.
TEST_F(Ledger, WhoScribblesIntoItReachesNoDaemon) {
  SlotLedger ledger = fresh();
  ledger.hold(2, self());
  struct stat status {};
  ASSERT_EQ(::fstat(ledger.fd(), &status), 0);
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, ledger.fd(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(static_cast<std::uint8_t*>(memory) + 8, 0xff, size - 8);
  EXPECT_TRUE(ledger.row(2).groups.empty());
  EXPECT_TRUE(ledger.join(2, {.interface_index = 1}));
  EXPECT_EQ(ledger.row(2).groups.size(), 1u);
  std::memset(static_cast<std::uint8_t*>(memory) + 8, 0xff, size - 8);
  SlotLedger next = adopted(ledger);
  for (Slot slot = 0; slot < control::kSlotCount; ++slot) {
    ASSERT_LE(next.row(slot).groups.size(), kGroupsPerSlotMax);
    ASSERT_LT(next.row(slot).next_index, control::qpns_of(slot).count);
  }
  next.free(2, 0xffff);
  std::memset(memory, 0, 8);
  EXPECT_FALSE(SlotLedger::adopt(OwnedFd(raw::fcntl(ledger.fd(), F_DUPFD_CLOEXEC, 3)), keys_).has_value());
  ::munmap(memory, size);
}

}  // namespace rrdma::daemon::slot_ledger_test
