// A program with librrdma-memory.so.1 (the test's environment preloads it): its large memory is in a memfd
// and behaves like private memory.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace hooks_test {

constexpr std::size_t kPage = 65536;  // a multiple of every machine's page size

// Whether the memory is in the shared file.
bool is_shared(const void* at) {
  std::ifstream maps("/proc/self/maps");
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  for (std::string line; std::getline(maps, line);) {
    unsigned long start = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &start, &end) != 2 || address < start || address >= end)
      continue;
    return line.find("memfd:rrdma-shared") != std::string::npos && line.find("rw-s") != std::string::npos;
  }
  return false;
}

std::uint8_t* map(std::size_t octets) {
  void* const at = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(at);
}

TEST(Hooks, LargeAlignedMemoryIsShared) {
  void* at = nullptr;
  ASSERT_EQ(::posix_memalign(&at, 4096, 1 << 20), 0);
  EXPECT_TRUE(is_shared(at));
  EXPECT_GE(::malloc_usable_size(at), std::size_t{1} << 20);
  std::memset(at, 1, 1 << 20);
  std::free(at);
  at = ::aligned_alloc(64, 1 << 16);
  EXPECT_TRUE(is_shared(at));
  std::free(at);
  at = ::memalign(4096, 8192);
  EXPECT_TRUE(is_shared(at)) << "whole pages are, from one page on";
  std::free(at);
  at = ::valloc(1 << 20);
  EXPECT_TRUE(is_shared(at));
  std::free(at);
}

TEST(Hooks, AllElseIsTheCLibrarys) {
  void* at = nullptr;
  ASSERT_EQ(::posix_memalign(&at, 64, 1000), 0);
  EXPECT_FALSE(is_shared(at));
  std::free(at);
  EXPECT_EQ(::posix_memalign(&at, 3, 1 << 20), EINVAL);
  EXPECT_EQ(::posix_memalign(&at, 4096, std::size_t{1} << 60), ENOMEM);
  at = std::malloc(1 << 20);
  EXPECT_FALSE(is_shared(at));
  std::free(at);
  at = ::mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_FALSE(is_shared(at));
  ::munmap(at, 1 << 20);
  at = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_FALSE(is_shared(at));
  ::munmap(at, 1 << 20);
  std::free(nullptr);
}

TEST(Hooks, ReallocKeepsWhatWasThere) {
  void* at = nullptr;
  ASSERT_EQ(::posix_memalign(&at, 4096, 4 * kPage), 0);
  std::memset(at, 7, 4 * kPage);
  at = std::realloc(at, 8 * kPage);
  for (std::size_t i = 0; i < 4 * kPage; ++i) ASSERT_EQ(static_cast<std::uint8_t*>(at)[i], 7);
  std::free(at);
}

TEST(Hooks, MappingsAreCutMovedAndClearedAsEver) {
  std::uint8_t* const at = map(8 * kPage);
  ASSERT_TRUE(is_shared(at));
  std::memset(at, 7, 8 * kPage);
  EXPECT_EQ(::munmap(at + 2 * kPage, kPage), 0);
  EXPECT_EQ(at[2 * kPage - 1], 7);
  EXPECT_EQ(at[3 * kPage], 7);
  EXPECT_EQ(::madvise(at, kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(at[0], 0) << "private memory is zeroed by it, shared memory would not be";
  EXPECT_EQ(at[kPage], 7);
  std::uint8_t* const neighbour = map(kPage);
  std::memset(neighbour, 9, kPage);
  EXPECT_EQ(::mremap(at + 3 * kPage, 5 * kPage, 16 * kPage, 0), MAP_FAILED);
  auto* const moved =
      static_cast<std::uint8_t*>(::mremap(at + 3 * kPage, 5 * kPage, 16 * kPage, MREMAP_MAYMOVE));
  ASSERT_NE(moved, MAP_FAILED);
  std::memset(moved + 5 * kPage, 1, 11 * kPage);
  EXPECT_EQ(moved[5 * kPage - 1], 7);
  EXPECT_EQ(neighbour[0], 9);
  EXPECT_EQ(::mremap(at, 2 * kPage, kPage, 0), at);
  EXPECT_EQ(::munmap(at, 3 * kPage), 0) << "the hole included";
  EXPECT_EQ(::munmap(moved, 16 * kPage), 0);
  EXPECT_EQ(::munmap(neighbour, kPage), 0);
}

// The semantics of fork(): both processes see the earlier data, and neither sees later writes of the other.
TEST(Hooks, AChildHasACopy) {
  void* aligned = nullptr;
  ASSERT_EQ(::posix_memalign(&aligned, 4096, 16 * kPage), 0);
  auto* const at = static_cast<std::uint8_t*>(aligned);
  std::uint8_t* const mapped = map(16 * kPage);
  std::memset(at, 1, 16 * kPage);
  mapped[5] = 1;
  for (int round = 0; round < 20; ++round) {
    int gate[2];
    ASSERT_EQ(::pipe(gate), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      char go;
      if (is_shared(at) || is_shared(mapped)) ::_exit(1);
      if (::read(gate[0], &go, 1) != 1) ::_exit(2);
      for (std::size_t i = 0; i < 16 * kPage; ++i) {
        if (at[i] != 1) ::_exit(3);
      }
      if (mapped[5] != 1 || mapped[6] != 0) ::_exit(4);
      std::memset(at, 3, 16 * kPage);
      mapped[5] = 3;
      std::free(at);
      if (::munmap(mapped, 16 * kPage) != 0) ::_exit(5);
      void* more = nullptr;
      if (::posix_memalign(&more, 4096, 16 * kPage) != 0) ::_exit(6);
      std::memset(more, 1, 16 * kPage);
      std::free(more);
      const pid_t grandchild = ::fork();
      if (grandchild == 0) ::_exit(0);
      int status = -1;
      if (::waitpid(grandchild, &status, 0) != grandchild || status != 0) ::_exit(7);
      ::_exit(0);
    }
    std::memset(at, 2, 16 * kPage);  // at once: the child already has its copy
    mapped[6] = 2;
    ASSERT_EQ(::write(gate[1], "", 1), 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "the step that failed: " << WEXITSTATUS(status);
    EXPECT_EQ(at[0], 2);
    EXPECT_EQ(mapped[5], 1);
    std::memset(at, 1, 16 * kPage);
    mapped[6] = 0;
    ::close(gate[0]);
    ::close(gate[1]);
  }
  std::free(at);
  ::munmap(mapped, 16 * kPage);
}

TEST(Hooks, ThreadsTakeAndGiveBackBesideForks) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 300; ++i) {
        void* at = nullptr;
        if (::posix_memalign(&at, 4096, (1 + static_cast<std::size_t>(i % 7)) * kPage) != 0) std::abort();
        std::memset(at, t, kPage);
        if (static_cast<std::uint8_t*>(at)[kPage - 1] != t) std::abort();
        std::free(at);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hooks_test
