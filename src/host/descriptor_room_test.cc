#include "host/descriptor_room.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace rrdma::host {
namespace {

TEST(DescriptorRoom, IsThereOrAnErrnoAndASentenceSaySo) {
  EXPECT_TRUE(require_descriptors(20).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{16, 16};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto refused = require_descriptors(20);
    const bool told = !refused && refused.error().error == EMFILE &&
                      refused.error().sentence.find("limit of 16") != std::string::npos;
    ::_exit(told && require_descriptors(2).ok() ? 0 : 1);  // what was tried is closed again
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace rrdma::host
