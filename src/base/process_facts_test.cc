#include "base/process_facts.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/raw_syscall.h"

namespace rrdma::process_facts_test {

constexpr int kCannotRun = 77;

// The exit status of a child that runs `body`.
int status_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Read through /proc/self, which is never another process.
std::uint64_t own_start_ticks() {
  const std::string text = proc_text("/proc/self/stat").value_or("");
  std::size_t at = text.rfind(')');
  for (int field = 3; field <= 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at, nullptr, 10);
}

TEST(ProcessFacts, TellOfThisProcess) {
  const auto stat = stat_of_process(raw::getpid());
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'R');
  EXPECT_NE(stat->start_ticks, 0u);
  EXPECT_EQ(stat->start_ticks, own_start_ticks());
  EXPECT_EQ(proc_folder(raw::getpid()), "/proc/" + std::to_string(raw::getpid()));
}

TEST(ProcessFacts, AProcessThatIsGoneHasNone) {
  pid_t gone = 0;
  gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  EXPECT_FALSE(stat_of_process(gone).has_value());
  EXPECT_FALSE(stat_of_process(0).has_value());
}

// In a new PID namespace with the old /proc: the numbers 1 and 2 there are other processes than here.
TEST(ProcessFacts, AreOfTheRightProcessInTheProcOfAnOuterNamespace) {
  const int status = status_of_child([] {
    const int user = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
    if (::unshare(CLONE_NEWPID | user) != 0) return kCannotRun;
    return status_of_child([] {  // pid 1
      if (raw::getpid() != 1) return 2;
      const auto first = stat_of_process(1);
      if (!first || first->start_ticks != own_start_ticks()) return 3;
      int ends[2];
      if (::pipe(ends) != 0) return 4;
      const pid_t second = ::fork();
      if (second == 0) {
        const std::uint64_t mine = own_start_ticks();
        static_cast<void>(!::write(ends[1], &mine, sizeof mine));
        ::pause();
      }
      std::uint64_t theirs = 0;
      if (::read(ends[0], &theirs, sizeof theirs) != sizeof theirs) return 5;
      const auto found = stat_of_process(second);
      return found && theirs != 0 && found->start_ticks == theirs && proc_folder(second) != "/proc/2" ? 0 : 6;
    });
  });
  if (status == kCannotRun) GTEST_SKIP() << "no PID namespaces here";
  EXPECT_EQ(status, 0);
}

}  // namespace rrdma::process_facts_test
