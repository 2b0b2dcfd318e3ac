// Children: their actions must not affect the parent, and they own their own objects.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cases.h"
#include "talk.h"
#include "verdict.h"

extern char** environ;

namespace guest {
namespace {

void expect_success(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) proof::fail_errno("waitpid");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    proof::fail("a child ended with status " + std::to_string(status));
}

// A program that has our library loaded like its parent: this one, which lists its cases if it gets no
// arguments. An existing program could not load a library that was built with a sanitizer.
const char* another_program() { return program_invocation_name; }

void fork_and_go_on() {
  Talk talk;
  talk.exchange();
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    talk.exchange();
    expect_success(child);
  }
  talk.exchange();
}

// The parent's device is unusable in the child and reports so; a device that the child opens works.
void fork_and_open_anew() {
  Talk talk;
  talk.exchange();
  const pid_t child = ::fork();
  if (child == 0) {
    if (ibv_alloc_pd(talk.device().context()) != nullptr) ::_exit(2);
    {
      Talk own;
      own.exchange();
    }
    ::_exit(0);
  }
  talk.exchange();
  expect_success(child);
  talk.exchange();
}

void fork_closes_everything() {
  Talk talk;
  talk.exchange();
  const pid_t child = ::fork();
  if (child == 0) {
    for (int fd = 3; fd < 1024; ++fd) ::close(fd);
    for (int fd = 3; fd < 1024; ++fd) {
      if (::fcntl(fd, F_GETFD) >= 0) ::_exit(3);
    }
    ::_exit(0);
  }
  expect_success(child);
  talk.exchange();
}

// Like Python's subprocess.
void vfork_closes_everything() {
  Talk talk(true);
  const int cm = ::open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  if (cm < 0) proof::fail_errno("opening rdma_cm");
  talk.exchange();
  const pid_t child = ::vfork();
  if (child == 0) {
    for (int fd = 3; fd < 1024; ++fd) ::close(fd);
    ::dup2(::open("/dev/null", O_WRONLY), 1);
    ::execl(another_program(), another_program(), nullptr);
    ::_exit(1);
  }
  expect_success(child);
  talk.exchange();
  // The descriptor is still an rdma_cm channel: a command that is too short is refused as such.
  if (::write(cm, "", 1) != -1 || errno != EINVAL)
    proof::fail("the rdma_cm channel did not outlive a vfork: " + std::string(std::strerror(errno)));
  if (::close(cm) != 0) proof::fail_errno("closing rdma_cm");
}

void spawn() {
  Talk talk;
  talk.exchange();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  char* const words[] = {program_invocation_name, nullptr};
  for (int i = 0; i < 4; ++i) {
    pid_t child = 0;
    if (::posix_spawn(&child, another_program(), &actions, nullptr, words, environ) != 0)
      proof::fail("posix_spawn");
    talk.exchange();
    expect_success(child);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  talk.exchange();
}

constexpr Case kCases[] = {
    {"fork_and_go_on", fork_and_go_on},
    {"fork_and_open_anew", fork_and_open_anew},
    {"fork_closes_everything", fork_closes_everything},
    {"vfork_closes_everything", vfork_closes_everything},
    {"spawn", spawn},
};

}  // namespace

std::span<const Case> child_cases() { return kCases; }

}  // namespace guest
