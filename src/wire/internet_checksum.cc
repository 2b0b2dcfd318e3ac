#include "wire/internet_checksum.h"

namespace rrdma::wire {

void InternetChecksum::add(Octets octets) {
  if (octets.empty()) return;
  if (odd_) {
    sum_ += octets.front();
    octets = octets.subspan(1);
    odd_ = false;
  }
  std::size_t at = 0;
  for (; at + 2 <= octets.size(); at += 2) sum_ += load_be16(octets.data() + at);
  if (at < octets.size()) {
    sum_ += static_cast<std::uint64_t>(octets[at]) << 8;
    odd_ = true;
  }
}

std::uint16_t InternetChecksum::folded() const {
  std::uint64_t sum = sum_;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

}  // namespace rrdma::wire
