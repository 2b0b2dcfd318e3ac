#include "host/fault_handler.h"

#include <signal.h>

#include <mutex>

#include "base/guarded_copy.h"

namespace rrdma::host {
namespace {

struct sigaction previous_segv;
struct sigaction previous_bus;

void pass_on(int signal, siginfo_t* info, void* context, const struct sigaction& previous) {
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  if (previous.sa_handler == SIG_IGN) return;
  if (previous.sa_handler == SIG_DFL) {
    // Back to the default action: the faulting instruction runs again and ends the program as usual.
    struct sigaction standard = previous;
    sigaction(signal, &standard, nullptr);
    return;
  }
  previous.sa_handler(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  recover_from_fault();  // does not return if this thread is inside a guard
  pass_on(signal, info, context, signal == SIGBUS ? previous_bus : previous_segv);
}

}  // namespace

void install_fault_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    // Left by a jump, so the signal must not stay blocked; on the alternate stack if the program has one.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

}  // namespace rrdma::host
