// Hooks for programs that exit without exit handlers. These symbols stay unversioned. Programs that make the
// system call directly bypass them.
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/verbs/device/end_of_process.h"

#define RRDMA_HOOK extern "C" __attribute__((visibility("default")))

namespace {

[[noreturn]] void end(int status) {
  rrdma::verbs::end_of_process();
  for (;;) ::syscall(SYS_exit_group, status);
}

}  // namespace

RRDMA_HOOK __attribute__((noreturn)) void _exit(int status) { end(status); }
RRDMA_HOOK __attribute__((noreturn)) void _Exit(int status) noexcept { end(status); }
