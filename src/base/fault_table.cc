#include "base/fault_table.h"

#include <ucontext.h>

#include <cstdint>
#include <type_traits>

#include "base/guarded_copy.h"

#if defined(__x86_64__) || defined(__aarch64__)

namespace rrdma {
namespace {

// Both fields are offsets relative to themselves, so that the table needs no relocation.
struct FaultEntry {
  std::int32_t access;
  std::int32_t landing;
};

std::uintptr_t target_of(const std::int32_t& field) {
  return reinterpret_cast<std::uintptr_t>(&field) + static_cast<std::uintptr_t>(std::intptr_t{field});
}

// The linker defines these two symbols for a section whose name is a C identifier.
extern "C" {
extern const FaultEntry __start_rrdma_faults[] __attribute__((visibility("hidden")));
extern const FaultEntry __stop_rrdma_faults[] __attribute__((visibility("hidden")));
}

#define RRDMA_MAY_FAULT_AT(label)      \
  ".pushsection rrdma_faults, \"a\"\n" \
  ".balign 4\n"                        \
  ".long " #label                      \
  "b - ., %l[fault] - .\n"             \
  ".popsection\n"

// Loads into a scratch register and stores it. False if either access faulted.
#define RRDMA_GUARDED_MOVE(name, load, store, scratch)                                 \
  bool name(std::uint8_t* to, const std::uint8_t* from) {                              \
    asm goto("1: " load "\n2: " store "\n" RRDMA_MAY_FAULT_AT(1) RRDMA_MAY_FAULT_AT(2) \
             : /* no outputs */                                                        \
             : [to] "r"(to), [from] "r"(from)                                          \
             : scratch, "memory"                                                       \
             : fault);                                                                 \
    return true;                                                                       \
  fault:                                                                               \
    return false;                                                                      \
  }

#if defined(__x86_64__)
RRDMA_GUARDED_MOVE(move16, "movdqu (%[from]), %%xmm7", "movdqu %%xmm7, (%[to])", "xmm7")
RRDMA_GUARDED_MOVE(move8, "movq (%[from]), %%rax", "movq %%rax, (%[to])", "rax")
RRDMA_GUARDED_MOVE(move4, "movl (%[from]), %%eax", "movl %%eax, (%[to])", "rax")
RRDMA_GUARDED_MOVE(move2, "movw (%[from]), %%ax", "movw %%ax, (%[to])", "rax")
RRDMA_GUARDED_MOVE(move1, "movb (%[from]), %%al", "movb %%al, (%[to])", "rax")
// Release stores: visible after all earlier stores. On x86 every store is one.
constexpr auto release8 = move8, release4 = move4, release2 = move2, release1 = move1;
#define RRDMA_PEEK "movb (%[from]), %%al"
#define RRDMA_PEEK_SCRATCH "rax"
#else
RRDMA_GUARDED_MOVE(move16, "ldr q31, [%[from]]", "str q31, [%[to]]", "v31")
RRDMA_GUARDED_MOVE(move8, "ldr x9, [%[from]]", "str x9, [%[to]]", "x9")
RRDMA_GUARDED_MOVE(move4, "ldr w9, [%[from]]", "str w9, [%[to]]", "x9")
RRDMA_GUARDED_MOVE(move2, "ldrh w9, [%[from]]", "strh w9, [%[to]]", "x9")
RRDMA_GUARDED_MOVE(move1, "ldrb w9, [%[from]]", "strb w9, [%[to]]", "x9")
// Release stores: visible after all earlier stores. REQUIRES: `to` is aligned.
RRDMA_GUARDED_MOVE(release8, "ldr x9, [%[from]]", "stlr x9, [%[to]]", "x9")
RRDMA_GUARDED_MOVE(release4, "ldr w9, [%[from]]", "stlr w9, [%[to]]", "x9")
RRDMA_GUARDED_MOVE(release2, "ldrh w9, [%[from]]", "stlrh w9, [%[to]]", "x9")
RRDMA_GUARDED_MOVE(release1, "ldrb w9, [%[from]]", "stlrb w9, [%[to]]", "x9")
#define RRDMA_PEEK "ldrb w9, [%[from]]"
#define RRDMA_PEEK_SCRATCH "x9"
#endif

using Move = bool (*)(std::uint8_t*, const std::uint8_t*);

}  // namespace

bool leave_faulting_access(void* context) noexcept {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto& counter = machine.gregs[REG_RIP];
#else
  auto& counter = machine.pc;
#endif
  for (const FaultEntry* entry = __start_rrdma_faults; entry != __stop_rrdma_faults; ++entry) {
    if (target_of(entry->access) != static_cast<std::uintptr_t>(counter)) continue;
    counter = static_cast<std::remove_reference_t<decltype(counter)>>(target_of(entry->landing));
    return true;
  }
  return false;
}

bool guarded_peek(const void* from) noexcept {
  asm goto("1: " RRDMA_PEEK "\n" RRDMA_MAY_FAULT_AT(1)
           : /* no outputs */
           : [from] "r"(from)
           : RRDMA_PEEK_SCRATCH, "memory"
           : fault);
  return true;
fault:
  return false;
}

bool small_copy(void* target, const void* source, std::size_t n) noexcept {
  auto* to = static_cast<std::uint8_t*>(target);
  const auto* from = static_cast<const std::uint8_t*>(source);
  const std::uint8_t* const end = from + n;
  for (; end - from >= 16; to += 16, from += 16)
    if (!move16(to, from)) return false;
  // Copy the remainder in decreasing powers of two; each size occurs at most once.
  const auto part = [&](std::size_t octets, Move move) {
    if ((n & octets) == 0) return true;
    if (!move(to, from)) return false;
    to += octets;
    from += octets;
    return true;
  };
  return part(8, move8) && part(4, move4) && part(2, move2) && part(1, move1);
}

bool small_copy_end_last(void* target, const void* source, std::size_t n) noexcept {
  auto* to = static_cast<std::uint8_t*>(target);
  const auto* from = static_cast<const std::uint8_t*>(source);
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(to) + n;
  const auto copy = [&](std::size_t word, Move release) {
    const std::size_t rest = n - word;
    return (rest == 0 || small_copy(to, from, rest)) && release(to + rest, from + rest);
  };
  if (n == 0) return true;
  if (end % 8 == 0 && n >= 8) return copy(8, release8);
  if (end % 4 == 0 && n >= 4) return copy(4, release4);
  if (end % 2 == 0 && n >= 2) return copy(2, release2);
  return copy(1, release1);
}

}  // namespace rrdma

#else

namespace rrdma {

bool leave_faulting_access(void*) noexcept { return false; }

bool guarded_peek(const void* from) noexcept {
  return guarded_call([](void* at) { static_cast<void>(*static_cast<const volatile std::uint8_t*>(at)); },
                      const_cast<void*>(from));
}

bool small_copy(void*, const void*, std::size_t n) noexcept { return n == 0; }
bool small_copy_end_last(void*, const void*, std::size_t n) noexcept { return n == 0; }

}  // namespace rrdma

#endif
