// Unpredictable random numbers from the kernel, for keys, tokens, nonces and seeds. No other file asks the
// kernel for them; engines receive a KeySource instead, or a Prng for randomness that no peer sees.
#pragma once

#include <cstdint>
#include <span>

#include "base/keys/key_source.h"

namespace rrdma {

// Aborts the process if neither getrandom(2) nor /dev/urandom works: a guessable key would be worse. Any
// thread.
void fill_with_system_entropy(std::span<std::uint8_t> octets);
[[nodiscard]] std::uint64_t system_entropy();
// A source under a fresh key of 128 bits.
[[nodiscard]] KeySource system_keys();

}  // namespace rrdma
