#include "host/descriptor_room.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "host/interfaces.h"

namespace rrdma::host::descriptor_room_test {

TEST(DescriptorRoom, IsThereOrAnErrnoAndASentenceSaySo) {
  EXPECT_TRUE(require_descriptors(20).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit few{16, 16};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto refused = require_descriptors(20);
    const bool told = !refused && refused.error().error == EMFILE &&
                      refused.error().sentence.find("limit of 16") != std::string::npos;
    ::_exit(told && require_descriptors(2).ok() ? 0 : 1);  // the probe closed its descriptors
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// At any limit, the result is all interfaces or an error: never some interfaces, and never incomplete ones.
TEST(DescriptorRoom, InterfacesAreReadWholeOrNotAtAll) {
  const auto all = read_interfaces();
  ASSERT_TRUE(all.ok()) << all.error().sentence;
  const pid_t child = ::fork();
  if (child == 0) {
    const int first_free = ::dup(0);
    ::close(first_free);
    int told = 0;
    for (rlim_t more = 4; more-- > 0;) {
      const rlimit few{static_cast<rlim_t>(first_free) + more, static_cast<rlim_t>(first_free) + 4};
      ::setrlimit(RLIMIT_NOFILE, &few);
      const auto read = read_interfaces();
      if (!read &&
          (read.error().error != EMFILE || read.error().sentence.find("ulimit -n") == std::string::npos))
        ::_exit(1);
      told += !read;
      if (!read) continue;
      for (std::size_t i = 0; i < all->size(); ++i) {
        if (read->size() != all->size() || (*read)[i].link_local != (*all)[i].link_local) ::_exit(2);
      }
    }
    ::_exit(told >= 1 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace rrdma::host::descriptor_room_test
