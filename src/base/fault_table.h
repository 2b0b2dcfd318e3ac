// Accesses to memory that may be gone, at no cost but that of the access: a table names for each instruction that may
// fault the place to go on at instead. A guard of guarded_copy.h, which can hold any code, costs as much as the copy of
// a small message, and every message would need two or three.
//
// Compilers see none of these accesses, nor do the sanitizers: what a NIC does to a program's memory is no access by
// any of its threads.
#pragma once

#include <cstddef>

namespace rrdma {

// For the handler of SIGSEGV and SIGBUS, with its third argument: if one of these accesses has faulted, it is left when
// the handler returns.
[[nodiscard]] bool leave_faulting_access(void* context) noexcept;

#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr std::size_t kSmallCopyMax = 64;
#else
inline constexpr std::size_t kSmallCopyMax = 0;  // no table: somebody has to write the few lines of assembly
#endif

// Reads one octet. False: it is not there.
[[nodiscard]] bool guarded_peek(const void* from) noexcept;
// Copy n octets. False if a page was not there; then some prefix may have been copied. REQUIRES: n <= kSmallCopyMax.
[[nodiscard]] bool small_copy(void* to, const void* from, std::size_t n) noexcept;
// The same, and who sees the last octets sees all: those that make an aligned word are stored at once.
[[nodiscard]] bool small_copy_end_last(void* to, const void* from, std::size_t n) noexcept;

}  // namespace rrdma
