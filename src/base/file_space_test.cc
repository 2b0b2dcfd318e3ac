#include "base/file_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/owned_fd.h"

namespace rrdma::file_space_test {

TEST(FileSpace, EveryOctetIsThere) {
  const OwnedFd file(raw::open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (!file) GTEST_SKIP() << "no unnamed files in /tmp";
  ASSERT_TRUE(allocate_file(file.get(), 40000));
  struct stat status {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_size, 40000);
  EXPECT_GE(status.st_blocks * 512, 40000);
}

// Exceeding RLIMIT_FSIZE raises SIGXFSZ, which kills the program.
TEST(FileSpace, TheProgramsLimitIsAnErrorAndNoSignal) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const OwnedFd file(raw::memfd_create("test", 0));
    const bool refused = !set_length(file.get(), 4096) && errno == EFBIG;
    ::_exit(refused && set_length(file.get(), 1000) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace rrdma::file_space_test
