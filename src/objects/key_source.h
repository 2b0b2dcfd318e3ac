// KeySource: numbers that are unpredictable without the secret, however many of them are known. Memory keys are given
// to peers by design, so a plain generator is not enough: a dozen outputs reveal its state. This is SipHash-2-4 of a
// counter, keyed by the secret. The same secret gives the same sequence on every machine, so a simulation can be
// repeated.
#pragma once

#include <cstdint>

namespace rrdma::objects {

// SipHash-2-4 of the eight bytes of `value`, least significant first.
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
