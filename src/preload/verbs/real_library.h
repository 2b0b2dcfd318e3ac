// The system's libibverbs, for devices that are not ours. Every public function that we define passes calls
// for such devices on to the next definition in the program's search order.
#pragma once

#include <cerrno>

// Marks a definition of the libibverbs ABI.
#define RRDMA_VERBS extern "C" __attribute__((visibility("default")))

namespace rrdma::verbs {

// Null if the system's library is too old to have it. `version` may be null.
void* find_real(const char* name, const char* version);

}  // namespace rrdma::verbs

// The real function of that name, looked up once; may be null.
#define RRDMA_REAL(name, version)                                                       \
  ([] {                                                                                 \
    static auto* const found =                                                          \
        reinterpret_cast<decltype(&::name)>(::rrdma::verbs::find_real(#name, version)); \
    return found;                                                                       \
  }())

// Returns the result of the real function; `otherwise` with EOPNOTSUPP if there is none.
#define RRDMA_PASS_ON(otherwise, name, version, ...)       \
  do {                                                     \
    auto* const real_function = RRDMA_REAL(name, version); \
    if (real_function == nullptr) {                        \
      errno = EOPNOTSUPP;                                  \
      return otherwise;                                    \
    }                                                      \
    return real_function(__VA_ARGS__);                     \
  } while (false)
