// Hooks of sigaction() and signal(), for the two signals that our fault handler needs
// (host/signals/fault_handler.h). The handler stores the program's action and executes it. All other signals
// go on to the next definition.
#include <errno.h>
#include <signal.h>

#include "base/next_symbol.h"
#include "host/signals/fault_handler.h"

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

namespace {

using rrdma::NextSymbol;

constinit NextSymbol<int(int, const struct sigaction*, struct sigaction*)> next_sigaction("sigaction");
constinit NextSymbol<sighandler_t(int, sighandler_t)> next_signal("signal");

__attribute__((constructor)) void look_up_all() {
  static_cast<void>(*next_sigaction);
  static_cast<void>(*next_signal);
}

}  // namespace

RRDMA_HOOK int sigaction(int number, const struct sigaction* action, struct sigaction* old) noexcept {
  if (!rrdma::host::keeps_action(number)) return (*next_sigaction)(number, action, old);
  rrdma::host::exchange_action(number, action, old);
  return 0;
}

RRDMA_HOOK sighandler_t signal(int number, sighandler_t handler) noexcept {
  if (!rrdma::host::keeps_action(number)) return (*next_signal)(number, handler);
  if (handler == SIG_ERR) {
    errno = EINVAL;
    return SIG_ERR;
  }
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, number);
  rrdma::host::exchange_action(number, &action, &old);
  return old.sa_handler;
}
