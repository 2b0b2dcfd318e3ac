#include "host/memory/shared_files.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>

namespace rrdma::host::shared_files_test {

constexpr std::size_t kOctets = 256 * 1024;

class SharedFilesTest : public testing::Test {
 protected:
  std::uint8_t* map(int fd, int flags, off_t offset = 0) {
    void* const at = ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE, flags, fd, offset);
    EXPECT_NE(at, MAP_FAILED);
    mapping_ = static_cast<std::uint8_t*>(at);
    return mapping_;
  }
  OwnedFd memory_file() {
    OwnedFd fd(raw::memfd_create("shared-files-test", MFD_CLOEXEC));
    EXPECT_EQ(raw::ftruncate(fd.get(), 2 * kOctets), 0);
    return fd;
  }
  void TearDown() override {
    if (mapping_ != nullptr) ::munmap(mapping_, kOctets);
  }
  std::uint8_t* mapping_ = nullptr;
  SharedFiles files_;
};

bool same_file(int a, int b) {
  struct stat one, other;
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_ino == other.st_ino;
}

TEST_F(SharedFilesTest, FindsWhereSharedMemoryLies) {
  const OwnedFd fd = memory_file();
  std::uint8_t* const at = map(fd.get(), MAP_SHARED, 4 * 65536);
  const auto place = files_.find(at + 65536, kOctets - 65536);
  ASSERT_TRUE(place);
  EXPECT_NE(place->fd, fd.get());
  EXPECT_TRUE(same_file(place->fd, fd.get()));
  EXPECT_EQ(place->offset, 5u * 65536);
  files_.let_go(*place);
}

TEST_F(SharedFilesTest, KeepsTheFileThatTheProgramCloses) {
  OwnedFd fd = memory_file();
  std::uint8_t* const at = map(fd.get(), MAP_SHARED);
  const auto first = files_.find(at, kOctets);
  ASSERT_TRUE(first);
  fd.reset();
  const auto second = files_.find(at, kOctets);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->fd, first->fd);
  files_.let_go(*first);
  struct stat about;
  EXPECT_EQ(::fstat(second->fd, &about), 0);
  files_.let_go(*second);
  EXPECT_NE(::fstat(second->fd, &about), 0) << "the last one lets go of the descriptor";
  EXPECT_FALSE(files_.find(at, kOctets)) << "now nobody has the file at hand";
}

TEST_F(SharedFilesTest, FindsNothingForMemoryOfOurOwn) {
  const OwnedFd fd = memory_file();
  std::uint8_t* const anonymous = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
  EXPECT_FALSE(files_.find(anonymous, kOctets));
  ::munmap(anonymous, kOctets);
  std::uint8_t* const copied = map(fd.get(), MAP_PRIVATE);
  EXPECT_FALSE(files_.find(copied, kOctets)) << "what is written there is in no file";
  EXPECT_FALSE(files_.find(nullptr, kOctets));
}

TEST_F(SharedFilesTest, FindsNothingForWhatReachesBeyondTheMapping) {
  const OwnedFd fd = memory_file();
  std::uint8_t* const at = map(fd.get(), MAP_SHARED);
  EXPECT_FALSE(files_.find(at + 65536, 1u << 30));
}

}  // namespace rrdma::host::shared_files_test
