// KeySource: numbers that nobody can foretell who does not know the secret, however many he has seen.
// Memory keys are handed to peers by design, so the output of a plain generator would not do: its state
// follows from a dozen outputs. This is SipHash-2-4 of a counter, keyed by the secret; the same secret
// gives the same sequence on every machine, so a simulation can be repeated.
#pragma once

#include <cstdint>

namespace rrdma::objects {

// SipHash-2-4 of the eight octets of `value`, least significant first.
std::uint64_t keyed_hash(std::uint64_t key_low, std::uint64_t key_high, std::uint64_t value);

class KeySource {
 public:
  explicit KeySource(std::uint64_t secret);
  std::uint32_t next() { return static_cast<std::uint32_t>(keyed_hash(key_low_, key_high_, drawn_++)); }

 private:
  std::uint64_t key_low_, key_high_;
  std::uint64_t drawn_ = 0;
};

}  // namespace rrdma::objects
