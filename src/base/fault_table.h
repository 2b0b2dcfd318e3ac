// Accesses to memory that may be unmapped, at the cost of the plain access. A table maps each instruction
// that may fault to the address at which to resume. The guard in guarded_copy.h accepts any code, but costs
// as much as copying a small message, and each message would need two or three.
//
// The accesses are assembly, which the sanitizers do not see: the NIC is not one of the program's threads.
#pragma once

#include <cstddef>

namespace rrdma {

// For the SIGSEGV and SIGBUS handler, with its third argument. True if one of these accesses faulted; it then
// fails when the handler returns.
[[nodiscard]] bool leave_faulting_access(void* context) noexcept;

#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr std::size_t kSmallCopyMax = 64;
#else
inline constexpr std::size_t kSmallCopyMax = 0;  // no assembly for this architecture yet
#endif

// Reads one byte. False if it is not mapped.
[[nodiscard]] bool guarded_peek(const void* from) noexcept;
// Copies n bytes. False if a page is not mapped; a prefix may have been copied. REQUIRES: n <= kSmallCopyMax.
[[nodiscard]] bool small_copy(void* to, const void* from, std::size_t n) noexcept;
// The same, but a reader that sees the last bytes sees all of them: one release store writes the last word.
[[nodiscard]] bool small_copy_end_last(void* to, const void* from, std::size_t n) noexcept;

}  // namespace rrdma
