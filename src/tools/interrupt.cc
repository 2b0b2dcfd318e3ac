#include "tools/interrupt.h"

#include <csignal>
#include <cstdio>

namespace rrdma::tools {
namespace {

volatile std::sig_atomic_t arrived_signal = 0;
bool goes_on = false;

void remember(int signal) { arrived_signal = signal; }

}  // namespace

void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = remember;
  // The default action returns, so that a second Ctrl-C ends a command that does not stop.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return arrived_signal != 0 && !goes_on; }

void go_on_after_interrupt() { goes_on = arrived_signal != 0; }

void end_by_interrupt() {
  if (arrived_signal == 0) return;
  std::fflush(stdout);  // flush output: no other code does if a signal ends the process
  std::signal(arrived_signal, SIG_DFL);
  std::raise(arrived_signal);
}

}  // namespace rrdma::tools
