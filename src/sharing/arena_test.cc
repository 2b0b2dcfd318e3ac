#include "sharing/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace rrdma::sharing::arena_test {

constexpr std::size_t kPage = 65536;  // a multiple of every machine's page size
constexpr std::size_t kOctets = 64 * kPage;

class ArenaTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(arena_.open(kOctets)); }
  std::uint8_t* take(std::size_t octets, std::size_t alignment = 1) {
    return static_cast<std::uint8_t*>(arena_.take(octets, alignment));
  }
  Arena arena_;
};

TEST_F(ArenaTest, GivesZeroedMemoryAlignedAsWanted) {
  for (const std::size_t alignment : {std::size_t{8}, kPage, 8 * kPage}) {
    std::uint8_t* const at = take(kPage + 1, alignment);
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignment, 0u);
    EXPECT_TRUE(arena_.has(at));
    EXPECT_GE(arena_.length_at(at), kPage + 1);
    for (std::size_t i = 0; i < kPage + 1; ++i) ASSERT_EQ(at[i], 0);
    std::memset(at, 0xff, kPage + 1);
  }
}

TEST_F(ArenaTest, MemoryThatComesBackIsZeroedAgainAndWhole) {
  EXPECT_EQ(take(kOctets + 1), nullptr);
  std::uint8_t* const all = take(kOctets);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(take(1), nullptr);
  std::memset(all, 1, kOctets);
  EXPECT_FALSE(arena_.give_back(all + kPage)) << "nothing begins there";
  EXPECT_TRUE(arena_.give_back(all));
  EXPECT_FALSE(arena_.give_back(all)) << "twice";
  // Pieces that are freed in any order merge again.
  std::uint8_t* pieces[4];
  for (auto& piece : pieces) {
    piece = take(kOctets / 4);
    ASSERT_NE(piece, nullptr);
    EXPECT_EQ(piece[0], 0);
  }
  for (const int i : {2, 0, 3, 1}) EXPECT_TRUE(arena_.give_back(pieces[i]));
  EXPECT_EQ(take(kOctets), all);
}

TEST_F(ArenaTest, APartThatIsGivenBackLeavesTheRest) {
  std::uint8_t* const at = take(4 * kPage);
  std::memset(at, 7, 4 * kPage);
  arena_.give_back(at + kPage, kPage);
  EXPECT_EQ(arena_.length_at(at), kPage);
  EXPECT_EQ(arena_.length_at(at + 2 * kPage), 2 * kPage);
  EXPECT_EQ(at[kPage - 1], 7);
  EXPECT_EQ(at[2 * kPage], 7);
  EXPECT_EQ(take(kPage), at + kPage) << "and can be had again";
  arena_.give_back(at, 64 * kPage);
  EXPECT_EQ(take(kOctets), at) << "all that was left, and what was not taken stays so";
}

TEST_F(ArenaTest, ClearedPagesReadAsZeroes) {
  std::uint8_t* const at = take(2 * kPage);
  std::memset(at, 7, 2 * kPage);
  EXPECT_TRUE(arena_.clear(at + kPage, kPage));
  EXPECT_EQ(at[kPage - 1], 7);
  EXPECT_EQ(at[kPage], 0);
}

TEST_F(ArenaTest, AChildHasMemoryOfItsOwn) {
  std::uint8_t* const at = take(4 * kPage);
  std::memset(at, 1, kPage);
  at[3 * kPage] = 2;
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!arena_.become_private()) ::_exit(1);
    if (at[0] != 1 || at[kPage - 1] != 1 || at[kPage] != 0 || at[3 * kPage] != 2) ::_exit(2);
    at[0] = 3;
    char go;
    if (::read(gate[0], &go, 1) != 1) ::_exit(3);
    if (at[0] != 3 || at[1] != 1) ::_exit(4);  // the parent has written meanwhile
    if (arena_.take(kPage, 1) != nullptr) ::_exit(5);
    if (!arena_.clear(at, kPage) || at[1] != 0) ::_exit(6);
    if (!arena_.give_back(at)) ::_exit(7);
    ::_exit(0);
  }
  ::usleep(50'000);
  at[1] = 9;
  ASSERT_EQ(::write(gate[1], "", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the step that failed: " << WEXITSTATUS(status);
  EXPECT_EQ(at[0], 1);
  ::close(gate[0]);
  ::close(gate[1]);
}

// A program may close descriptors that it did not open, and open another file with the same number.
TEST_F(ArenaTest, GivesNothingFromAFileThatIsNotItsOwn) {
  std::uint8_t* const at = take(kPage);
  ASSERT_NE(at, nullptr);
  std::memset(at, 1, kPage);
  for (int fd = 3; fd < 1024; ++fd) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    char name[64] = {};
    if (::readlink(link.c_str(), name, sizeof name - 1) > 0 && std::strstr(name, "rrdma-shared") != nullptr) {
      const int other = ::memfd_create("another", 0);
      ASSERT_EQ(::ftruncate(other, kOctets), 0);
      ASSERT_EQ(::dup2(other, fd), fd);
      ::close(other);
    }
  }
  EXPECT_EQ(take(kPage), nullptr);
  EXPECT_EQ(at[5], 1) << "what was taken stays";
  EXPECT_TRUE(arena_.give_back(at));
}

}  // namespace rrdma::sharing::arena_test
