// Unpredictable random numbers from the kernel, for keys, tokens, nonces and PRNG seeds. No other file asks the
// kernel for them; engines receive a Prng instead.
#pragma once

#include <cstdint>
#include <span>

namespace rrdma {

// Aborts the process if neither getrandom(2) nor /dev/urandom works: a guessable key would be worse. Any thread.
void fill_with_system_entropy(std::span<std::uint8_t> octets);
[[nodiscard]] std::uint64_t system_entropy();

}  // namespace rrdma
