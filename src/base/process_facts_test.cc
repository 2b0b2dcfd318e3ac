#include "base/process_facts.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
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

// clone3() with the number of the child in its PID namespace and in the one above; <linux/sched.h> has the
// names of the fields only since Linux 5.5.
pid_t fork_as(pid_t number) {
  const pid_t numbers[] = {number, number};
  struct {
    std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        set_tid_size;
  } arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uintptr_t>(numbers);
  arguments.set_tid_size = 2;
  constexpr long kClone3 = 435;
  return static_cast<pid_t>(::syscall(kClone3, &arguments, sizeof arguments));
}

// The number of a process of a new PID namespace may be its number in the outer /proc as well.
TEST(ProcessFacts, AreOfTheRightProcessIfNumbersAreEqualByChance) {
  constexpr pid_t kNumber = 31'999;
  const int status = status_of_child([] {
    if (::unshare(CLONE_NEWPID) != 0) return kCannotRun;
    const pid_t first = ::fork();  // 1 in the new namespace
    if (first == 0) {
      ::pause();
      ::_exit(0);
    }
    pid_t second = -1;
    for (pid_t number = kNumber; second < 0 && number > kNumber - 100; --number) second = fork_as(number);
    if (second == 0) ::_exit(proc_folder(1) == "/proc/" + std::to_string(first) ? 0 : 6);
    int ended = 0;
    const bool ran = second > 0 && ::waitpid(second, &ended, 0) == second;
    ::kill(first, SIGKILL);
    ::waitpid(first, nullptr, 0);
    return !ran ? kCannotRun : WIFEXITED(ended) ? WEXITSTATUS(ended) : 7;
  });
  if (status == kCannotRun) GTEST_SKIP() << "needs root, and Linux 5.5";
  EXPECT_EQ(status, 0);
}

}  // namespace rrdma::process_facts_test
