// Numbers that nobody can guess, from the kernel: for keys, tokens, nonces and the seeds of generators. The one place
// that asks for them; engines are given a Prng instead.
#pragma once

#include <cstdint>
#include <span>

namespace rrdma {

// Ends the process where neither getrandom(2) nor /dev/urandom gives any: a guessable key would be worse. Any thread.
void fill_with_system_entropy(std::span<std::uint8_t> octets);
[[nodiscard]] std::uint64_t system_entropy();

}  // namespace rrdma
