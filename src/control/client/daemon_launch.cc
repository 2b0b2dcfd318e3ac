#include "control/client/daemon_launch.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/raw_syscall.h"
#include "control/names.h"
#include "host/own_executable.h"

#ifndef RRDMA_DAEMON_INSTALLED
#define RRDMA_DAEMON_INSTALLED "/usr/bin/rrdmad"
#endif

extern "C" char** environ;

namespace rrdma::control {
namespace {

// The children share the program's memory while its other threads run: they must not allocate, lock, or touch
// a sanitizer's state.
#define RRDMA_BORROWED_MEMORY __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

constexpr std::size_t kChildStackSize = 64 * 1024;
constexpr unsigned kDescriptorsWithoutCloseRange = 4096;
constexpr int kSignalCount = 64;
constexpr long kBorrow = CLONE_VM | CLONE_VFORK;  // exit signal 0: the end of the child raises no signal

struct Launch {
  const char* executable;
  char* const* arguments;
  char* const* environment;
  char* second_stack_top;
  long flags;
  int start_lock;
  volatile int error;
};

struct KernelSigaction {
  std::uint64_t words[4];  // handler, flags, restorer, mask; all zero is the default action
};

// Starts `entry(argument)` in a child on the caller's memory; the caller sleeps until the child has exited or
// executed another program. Written in assembly, because sanitizers intercept the C library's clone() and
// take the child for a thread. Returns the pid or a negative errno. `entry` never returns.
RRDMA_BORROWED_MEMORY long borrow_child(int (*entry)(void*), char* stack_top, void* argument, long flags) {
#if defined(__x86_64__)
  long result = SYS_clone;
  register long parent_tid __asm__("r10") = 0;
  register long thread_pointer __asm__("r8") = 0;
  register int (*child_entry)(void*) __asm__("r12") = entry;
  register void* child_argument __asm__("r13") = argument;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "hlt\n"
      "1:"
      : "+a"(result)
      : "D"(flags), "S"(stack_top), "d"(0L), "r"(parent_tid), "r"(thread_pointer), "r"(child_entry),
        "r"(child_argument)
      : "rcx", "r11", "memory", "cc");
  return result;
#elif defined(__aarch64__)
  register long result __asm__("x0") = flags;
  register char* child_stack __asm__("x1") = stack_top;
  register long parent_tid __asm__("x2") = 0;
  register long thread_pointer __asm__("x3") = 0;
  register long child_tid __asm__("x4") = 0;
  register long number __asm__("x8") = SYS_clone;
  register int (*child_entry)(void*) __asm__("x19") = entry;
  register void* child_argument __asm__("x20") = argument;
  __asm__ volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #0\n"
      "1:"
      : "+r"(result)
      : "r"(child_stack), "r"(parent_tid), "r"(thread_pointer), "r"(child_tid), "r"(number), "r"(child_entry),
        "r"(child_argument)
      : "memory", "cc");
  return result;
#else
  const int child = ::clone(entry, stack_top, static_cast<int>(flags), argument);
  return child < 0 ? -errno : child;
#endif
}

RRDMA_BORROWED_MEMORY void forget_signals() {
  const KernelSigaction by_default = {};
  for (int signal = 1; signal <= kSignalCount; ++signal) {
    ::syscall(SYS_rt_sigaction, signal, &by_default, nullptr, sizeof(std::uint64_t));
  }
  const std::uint64_t none = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
}

RRDMA_BORROWED_MEMORY void close_from(unsigned first) {
  if (::syscall(SYS_close_range, first, ~0u, 0u) >= 0) return;
  for (unsigned fd = first; fd < kDescriptorsWithoutCloseRange; ++fd) ::syscall(SYS_close, fd);
}

RRDMA_BORROWED_MEMORY void forget_descriptors(int start_lock) {
  bool is_kept = start_lock == kStartLockNumber && ::syscall(SYS_fcntl, start_lock, F_SETFD, 0) == 0;
  if (start_lock >= 0 && start_lock != kStartLockNumber)
    is_kept = ::syscall(SYS_dup3, start_lock, kStartLockNumber, 0) >= 0;
  close_from(is_kept ? kStartLockNumber + 1u : kStartLockNumber);
  for (int fd = 0; fd < kStartLockNumber; ++fd) ::syscall(SYS_close, fd);
  for (int fd = 0; fd < kStartLockNumber; ++fd)
    ::syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);  // takes the lowest free number
}

RRDMA_BORROWED_MEMORY int become_daemon(void* argument) {
  auto* launch = static_cast<Launch*>(argument);
  forget_signals();
  forget_descriptors(launch->start_lock);
  ::syscall(SYS_execve, launch->executable, launch->arguments, launch->environment);
  launch->error = errno;
  ::syscall(SYS_exit_group, 127);
  return 0;
}

// The first child leads the new session and exits at once, so that the daemon is not a session leader.
RRDMA_BORROWED_MEMORY int leave_session(void* argument) {
  auto* launch = static_cast<Launch*>(argument);
  ::syscall(SYS_setsid);
  const long child = borrow_child(become_daemon, launch->second_stack_top, argument, launch->flags);
  if (child < 0) launch->error = static_cast<int>(-child);
  ::syscall(SYS_exit_group, 0);
  return 0;
}

// Variables that the daemon must not inherit: our own preload, and the program's contract with its service
// manager.
bool is_inherited(std::string_view assignment) {
  constexpr std::string_view kDropped[] = {
      "LD_PRELOAD=", "LD_AUDIT=",       "NOTIFY_SOCKET=", "LISTEN_FDS=",
      "LISTEN_PID=", "LISTEN_FDNAMES=", "WATCHDOG_USEC=", "WATCHDOG_PID="};
  for (const std::string_view dropped : kDropped) {
    if (assignment.substr(0, dropped.size()) == dropped) return false;
  }
  return true;
}

std::string directory_of(std::string path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

bool is_executable(const std::string& path) {
  return ::syscall(SYS_faccessat, AT_FDCWD, path.c_str(), X_OK) == 0;
}

}  // namespace

Result<std::string, Problem> find_daemon() {
  if (const char* chosen = ::secure_getenv("RRDMA_DAEMON"); chosen != nullptr && *chosen != '\0') {
    if (is_executable(chosen)) return std::string(chosen);
    return problem(ENOENT, "RRDMA_DAEMON names " + std::string(chosen) +
                               ", which cannot be executed: correct it or unset it.");
  }
  std::vector<std::string> directories;
  Dl_info object{};
  if (::dladdr(reinterpret_cast<const void*>(&find_daemon), &object) != 0 && object.dli_fname != nullptr) {
    directories.push_back(directory_of(object.dli_fname));
  }
  directories.push_back(directory_of(host::own_executable()));
  for (const std::string& directory : directories) {
    if (directory.empty()) continue;
    // lib/, lib/<triplet>/ and bin/ as siblings; libexec for distributions that install daemons there.
    for (const char* where : {"/rrdmad", "/../bin/rrdmad", "/../../bin/rrdmad", "/../libexec/rrdmad",
                              "/../../libexec/rrdmad", "/../sbin/rrdmad"}) {
      if (is_executable(directory + where)) return directory + where;
    }
  }
  if (is_executable(RRDMA_DAEMON_INSTALLED)) return std::string(RRDMA_DAEMON_INSTALLED);
  return problem(ENOENT, "rrdmad was found neither beside the library nor at " RRDMA_DAEMON_INSTALLED
                         ": install it, or set RRDMA_DAEMON to its path.");
}

Result<void, Problem> launch_daemon(const std::string& executable, int start_lock) {
  std::vector<char*> arguments = {const_cast<char*>(executable.c_str()), const_cast<char*>("--autostarted"),
                                  nullptr};
  std::vector<char*> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (is_inherited(*entry)) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  std::vector<char> stacks(2 * kChildStackSize + 16);
  const auto aligned = [](char* top) {
    return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15});
  };
  Launch launch{.executable = executable.c_str(),
                .arguments = arguments.data(),
                .environment = environment.data(),
                .second_stack_top = aligned(stacks.data() + 2 * kChildStackSize),
                .flags = kBorrow,
                .start_lock = start_lock,
                .error = 0};

  // No handler of the program may run in a child that shares its memory.
  const std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  long child = borrow_child(leave_session, aligned(stacks.data() + kChildStackSize), &launch, launch.flags);
  if (child == -EINVAL) {
    // An emulator that rejects exit signal 0. The program gets a SIGCHLD for a child that is already reaped.
    launch.flags |= SIGCHLD;
    child = borrow_child(leave_session, aligned(stacks.data() + kChildStackSize), &launch, launch.flags);
  }
  if (child > 0) ::syscall(SYS_wait4, child, nullptr, __WALL, nullptr);
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);

  const int error = child < 0 ? static_cast<int>(-child) : launch.error;
  if (error != 0) {
    return problem(error, "cannot start " + executable + ": " + std::strerror(error) + ".");
  }
  return {};
}

}  // namespace rrdma::control
