#include "host/signals/fault_handler.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

#include "base/guarded_copy.h"
#include "base/raw_syscall.h"

namespace rrdma::host {
namespace {

// The program's own action. Signal handlers read it, and sigaction() writes it, possibly inside a handler. It
// uses no lock, but a ring whose slots are reused only after many more writes.
class ProgramAction {
 public:
  [[nodiscard]] struct sigaction read() const { return *latest_.load(std::memory_order_acquire); }
  void write(const struct sigaction& action) {
    struct sigaction& place = ring_[next_.fetch_add(1, std::memory_order_relaxed) % ring_.size()];
    place = action;
    latest_.store(&place, std::memory_order_release);
  }

 private:
  std::array<struct sigaction, 32> ring_{};
  std::atomic<unsigned> next_{1};
  std::atomic<const struct sigaction*> latest_{&ring_[0]};
};

constinit ProgramAction segv, bus;
std::atomic<pid_t> owner{0};  // the process that installed the handler
thread_local bool installing = false;

ProgramAction& action_of(int signal) { return signal == SIGBUS ? bus : segv; }

// The running instruction caused the signal and would cause it again.
bool is_fault(int signal, const siginfo_t& info) {
  return info.si_code > 0 && !(signal == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

// Restores the kernel's default action. A fault triggers it on return, because the instruction runs again; a
// signal that was sent is sent again.
void end_by_default(int signal, siginfo_t& info) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  installing = true;
  sigaction(signal, &standard, nullptr);
  installing = false;
  if (is_fault(signal, info)) return;
  const long thread = ::syscall(SYS_gettid);
  if (::syscall(SYS_rt_tgsigqueueinfo, raw::getpid(), thread, signal, &info) != 0)
    ::syscall(SYS_tgkill, raw::getpid(), thread, signal);
}

void call(const struct sigaction& action, int signal, siginfo_t* info, void* context) {
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction(signal, info, context);
  action.sa_handler(signal);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  ProgramAction& place = action_of(signal);
  const struct sigaction action = place.read();
  const bool plain = (action.sa_flags & SA_SIGINFO) == 0;
  if (plain && action.sa_handler == SIG_IGN && !is_fault(signal, *info)) return;
  // A fault cannot be ignored: the kernel, too, kills the program.
  if (plain && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN))
    return end_by_default(signal, *info);
  if ((action.sa_flags & SA_RESETHAND) != 0) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    place.write(standard);
  }
  sigset_t during = action.sa_mask, before;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&during, signal);
  pthread_sigmask(SIG_BLOCK, &during, &before);
  call(action, signal, info, context);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (is_fault(signal, *info) && recover_from_fault(context)) return;
  pass_on(signal, info, context);
}

void install(int signal) {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  // The handler exits by a jump, so the signal must not stay blocked. Use the alternate stack if the program
  // has one.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  struct sigaction previous {};
  sigaction(signal, nullptr, &previous);
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction == on_fault) return;
  action_of(signal).write(previous);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void install_fault_handler() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (owner.load() == raw::getpid()) return;
  static const int follows_forks = pthread_atfork(nullptr, nullptr, [] { owner = raw::getpid(); });
  static_cast<void>(follows_forks);
  installing = true;
  install(SIGSEGV);
  install(SIGBUS);
  installing = false;
  owner.store(raw::getpid());
}

bool keeps_action(int signal) {
  if (signal != SIGSEGV && signal != SIGBUS) return false;
  return !installing && owner.load(std::memory_order_relaxed) == raw::getpid();
}

void exchange_action(int signal, const struct sigaction* action, struct sigaction* old) {
  ProgramAction& place = action_of(signal);
  const struct sigaction before = place.read();
  if (action != nullptr) place.write(*action);
  if (old != nullptr) *old = before;
}

}  // namespace rrdma::host
