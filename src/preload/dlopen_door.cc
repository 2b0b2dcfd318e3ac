// The dlopen hook for programs that load libibverbs themselves. dlopen of libibverbs, under any path and also
// under the private name of a Python wheel's copy ("libibverbs-1de1263b.so"), returns our own library. dlsym
// and dlvsym then find our functions first and the real library's behind them. A private librdmacm becomes
// the system's, which uses our rdma_cm file; RTLD_DEEPBIND must not bypass our hooks.
//
// Any other name goes to the real dlopen by a jump, not by a call. dlopen searches the RUNPATH of the object
// that holds its return address, which must stay the caller. C++ cannot guarantee a tail call, so the hook is
// written in assembly: it calls choose_dlopen() and jumps to the result.
#include <dlfcn.h>

#include "preload/library_name.h"
#include "preload/verbs/real_library.h"

namespace {

using Dlopen = void* (*)(const char*, int);

Dlopen real_dlopen() {
  static const auto real = reinterpret_cast<Dlopen>(rrdma::verbs::find_real("dlopen", nullptr));
  return real;
}

void* open_own(const char*, int flags) {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&open_own), &own) == 0) return nullptr;
  return real_dlopen()(own.dli_fname, flags);
}

void* open_rdma_cm(const char* name, int flags) {
  flags &= ~RTLD_DEEPBIND;
  void* system = real_dlopen()("librdmacm.so.1", flags);
  return system != nullptr ? system : real_dlopen()(name, flags);
}

}  // namespace

extern "C" __attribute__((visibility("hidden"), used)) void* rrdma_choose_dlopen(const char* name) {
  using rrdma::preload::is_library;
  if (is_library(name, "libibverbs")) return reinterpret_cast<void*>(&open_own);
  if (is_library(name, "librdmacm")) return reinterpret_cast<void*>(&open_rdma_cm);
  return reinterpret_cast<void*>(real_dlopen());
}

#if defined(__x86_64__)
asm(R"(
  .text
  .globl dlopen
  .type dlopen, @function
dlopen:
  .cfi_startproc
  endbr64
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call rrdma_choose_dlopen
  mov %rax, %r11
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%r11
  .cfi_endproc
  .size dlopen, .-dlopen
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl dlopen
  .type dlopen, %function
dlopen:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset 29, -32
  .cfi_offset 30, -24
  stp x0, x1, [sp, #16]
  bl rrdma_choose_dlopen
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  br x16
  .cfi_endproc
  .size dlopen, .-dlopen
)");
#else
#error "write the jump for this architecture"
#endif
