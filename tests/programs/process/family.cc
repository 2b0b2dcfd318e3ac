#include "family.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <new>

#include "verdict.h"

namespace proof {
namespace {

constexpr double kMeetSeconds = 600;
// When a member has failed, the others wait for it in vain. Those that fail by themselves may say why.
constexpr double kSecondsAfterFailure = 2;

// Waits for a second at most.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  const timespec second{.tv_sec = 1, .tv_nsec = 0};
  return ::syscall(SYS_futex, &word, operation, value, &second, nullptr, 0);
}

}  // namespace

Family::Family(unsigned members) : members_(members) {
  const std::size_t octets = sizeof(Shared) + sizeof(Hello) * members * members;
  void* memory = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail_errno("mmap");
  shared_ = new (memory) Shared{};
  hellos_ = reinterpret_cast<Hello*>(shared_ + 1);
}

void Family::start(const std::function<void(unsigned)>& life) {
  std::fflush(nullptr);
  for (unsigned member = 0; member < members_; ++member) {
    const pid_t pid = ::fork();
    if (pid < 0) fail_errno("fork");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      life(member);
      std::fflush(nullptr);
      ::_exit(0);
    }
    pids_.push_back(pid);
  }
}

unsigned Family::wait(double seconds, const std::function<bool(unsigned)>& may_fail) {
  double until = monotonic_seconds() + seconds;
  std::vector<bool> ended(members_, false);
  unsigned bad = 0;
  for (unsigned left = members_; left != 0;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      if (monotonic_seconds() > until) break;
      ::usleep(2'000);
      continue;
    }
    const auto member = static_cast<unsigned>(std::find(pids_.begin(), pids_.end(), pid) - pids_.begin());
    if (member >= members_) continue;
    ended[member] = true;
    --left;
    if (status == 0 || (may_fail && may_fail(member))) continue;
    if (bad++ == 0) until = std::min(until, monotonic_seconds() + kSecondsAfterFailure);
    std::fprintf(stderr, "member %u (pid %d) ended with status 0x%x\n", member, static_cast<int>(pid),
                 static_cast<unsigned>(status));
  }
  for (unsigned member = 0; member < members_; ++member) {
    if (ended[member]) continue;
    std::fprintf(stderr, "member %u (pid %d) did not end\n", member, static_cast<int>(pids_[member]));
    ::kill(pids_[member], SIGKILL);
    ::waitpid(pids_[member], nullptr, 0);
    ++bad;
  }
  return bad;
}

Hello& Family::hello(unsigned from, unsigned to) { return hellos_[from * members_ + to]; }

void Family::meet(unsigned count) {
  const std::uint32_t wanted = ++met_ * (count == 0 ? members_ : count);
  // The last one wakes the others: a hundred that look again and again take a core from those that work.
  if (shared_->arrivals.fetch_add(1) + 1 == wanted) (void)futex(shared_->arrivals, FUTEX_WAKE, INT_MAX);
  const double until = monotonic_seconds() + kMeetSeconds;
  for (std::uint32_t arrived; (arrived = shared_->arrivals.load()) < wanted;) {
    if (monotonic_seconds() > until) fail("others of the family never came");
    (void)futex(shared_->arrivals, FUTEX_WAIT, arrived);
  }
}

std::atomic<std::uint32_t>& Family::flag(unsigned which) { return shared_->flags[which]; }

}  // namespace proof
