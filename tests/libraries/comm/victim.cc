#include "tests/libraries/comm/victim.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <stdexcept>

#include "tests/libraries/comm/seeds.h"

namespace seeds {
namespace {

using rrdma::comm::Clock;

constexpr int kTellingFd = 3;  // a victim reports here that it is ready
constexpr int kPulsesFd = 4;
constexpr std::chrono::milliseconds kBeat{10};
// A quarter of the time that rrdma::comm waits for a silent peer at least.
constexpr std::chrono::milliseconds kPause{250};

Pulses* mapped(int descriptor) {
  void* memory = ::mmap(nullptr, sizeof(Pulses), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("pulses cannot be mapped");
  return static_cast<Pulses*>(memory);
}

}  // namespace

rrdma::comm::Task<> Pulse::beat(rrdma::comm::Context& context) {
  for (;;) {
    const std::int64_t now = Clock::now().time_since_epoch().count();
    const std::int64_t last = last_.exchange(now);
    if (last != 0) longest_ = std::max(longest_.load(), now - last);
    static_cast<void>(co_await context.sleep(kBeat));
  }
}

bool Pulse::paused() const {
  const Clock::duration now = Clock::now().time_since_epoch();
  const Clock::duration last(last_.load());
  return std::max(Clock::duration(longest_.load()), last.count() != 0 ? now - last : last) >= kPause;
}

Pulses& pulses_of_this_victim() {
  static Pulses* const pulses = mapped(kPulsesFd);
  return *pulses;
}

Victim start_victim(std::uint64_t seed, std::vector<std::string> words) {
  const int pulses = ::memfd_create("pulses", MFD_CLOEXEC);
  if (pulses < 0 || ::ftruncate(pulses, sizeof(Pulses)) != 0) fail(seed, "no memory for pulses");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(seed, "no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kTellingFd);
  posix_spawn_file_actions_adddup2(&actions, pulses, kPulsesFd);
  words.insert(words.begin(), {"swarm", "victim"});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  Victim victim;
  victim.pulses = {mapped(pulses), [](Pulses* memory) { ::munmap(memory, sizeof(Pulses)); }};
  if (::posix_spawn(&victim.pid, "/proc/self/exe", &actions, nullptr, pointers.data(), environ) != 0)
    fail(seed, "no process");
  posix_spawn_file_actions_destroy(&actions);
  ::close(pulses);
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
