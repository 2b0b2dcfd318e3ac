#include "tests/libraries/comm/victim.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/libraries/comm/seeds.h"

namespace seeds {
namespace {

constexpr int kTellingFd = 3;  // a victim reports here that it is ready

}  // namespace

Victim start_victim(std::uint64_t seed, std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(seed, "no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kTellingFd);
  words.insert(words.begin(), {"swarm", "victim"});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  Victim victim;
  if (::posix_spawn(&victim.pid, "/proc/self/exe", &actions, nullptr, pointers.data(), environ) != 0)
    fail(seed, "no process");
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  char octet = 0;
  while (::read(ends[0], &octet, 1) == 1 && octet != '\n') victim.address += octet;
  if (octet != '\n') fail(seed, "the victim did not come so far");
  ::close(ends[0]);
  return victim;
}

rrdma::comm::Task<> await_the_moment(rrdma::comm::Context& context, std::uint64_t seed) {
  Random random(~seed * 3);  // independent of other choices of the seed
  static_cast<void>(
      co_await context.sleep(std::chrono::microseconds(random.below(1U << (4 + random.below(14))))));
}

void kill(const Victim& victim, std::uint64_t seed) {
  ::kill(victim.pid, SIGKILL);
  int status = 0;
  ::waitpid(victim.pid, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
    fail(seed, "the victim had ended by itself: status " + std::to_string(status));
}

void end_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

void say_where(std::string address, std::uint64_t seed) {
  address += '\n';
  if (::write(kTellingFd, address.data(), address.size()) != static_cast<ssize_t>(address.size()))
    fail(seed, "the victim is not heard");
}

}  // namespace seeds
