// _exit() and _Exit(), which skip the handlers of exit(): an answer that was held back for a reply must leave
// before the process does (docs/adr/0010).
#include <stdlib.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "nic/runtime.h"

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

RRDMA_HOOK void _exit(int status) {
  rrdma::nic::Runtime::leave();
  for (;;) ::syscall(SYS_exit_group, status);
}

RRDMA_HOOK void _Exit(int status) noexcept { _exit(status); }
