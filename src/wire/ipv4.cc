#include "wire/ipv4.h"

#include <algorithm>

#include "base/assert.h"
#include "wire/internet_checksum.h"

namespace rrdma::wire {
namespace {

constexpr std::uint16_t kReservedFlag = 0x8000;
constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::uint16_t kFragmentBits = 0x3fff;  // more-fragments and the offset

bool checksum_right(Octets header) {
  InternetChecksum sum;
  sum.add(header);
  return sum.folded() == 0xffff;
}

}  // namespace

Result<Ipv4Header, FrameError> parse_ipv4(Octets packet) {
  if (packet.size() < kIpv4Octets) return Failure{FrameError::kIpTooShort};
  const std::uint8_t* p = packet.data();
  if (p[0] >> 4 != 4) return Failure{FrameError::kIpVersion};
  const std::size_t header_octets = static_cast<std::size_t>(p[0] & 0x0f) * 4;
  if (header_octets < kIpv4Octets || header_octets > packet.size())
    return Failure{FrameError::kIpHeaderLength};
  if (!checksum_right(packet.first(header_octets))) return Failure{FrameError::kIpChecksum};
  const std::uint16_t total_length = load_be16(p + 2);
  if (total_length < header_octets) return Failure{FrameError::kIpLengthTooSmall};
  if (total_length > packet.size()) return Failure{FrameError::kIpLengthBeyondFrame};
  const std::uint16_t flags = load_be16(p + 6);
  if ((flags & kReservedFlag) != 0) return Failure{FrameError::kIpReservedFlag};
  if ((flags & kFragmentBits) != 0) return Failure{FrameError::kIpFragment};

  Ipv4Header header;
  header.tos = p[1];
  header.total_length = total_length;
  header.identification = load_be16(p + 4);
  header.dont_fragment = (flags & kDontFragment) != 0;
  header.ttl = p[8];
  header.protocol = p[9];
  std::copy_n(p + 12, 4, header.source.octets.data());
  std::copy_n(p + 16, 4, header.destination.octets.data());
  header.options_octets = static_cast<std::uint8_t>(header_octets - kIpv4Octets);
  std::copy_n(p + kIpv4Octets, header.options_octets, header.options.data());
  return header;
}

std::size_t emit_ipv4(const Ipv4Header& header, MutableOctets to) {
  RRDMA_ASSERT(header.options_octets % 4 == 0 && header.options_octets <= kIpv4OptionsMax);
  RRDMA_ASSERT(to.size() >= header.octets());
  std::uint8_t* p = to.data();
  p[0] = static_cast<std::uint8_t>(0x40 | header.octets() / 4);
  p[1] = header.tos;
  store_be16(p + 2, header.total_length);
  store_be16(p + 4, header.identification);
  store_be16(p + 6, header.dont_fragment ? kDontFragment : std::uint16_t{0});
  p[8] = header.ttl;
  p[9] = header.protocol;
  store_be16(p + 10, 0);
  std::copy_n(header.source.octets.data(), 4, p + 12);
  std::copy_n(header.destination.octets.data(), 4, p + 16);
  std::copy_n(header.options.data(), header.options_octets, p + kIpv4Octets);
  InternetChecksum sum;
  sum.add(to.first(header.octets()));
  store_be16(p + 10, sum.inverted());
  return header.octets();
}

}  // namespace rrdma::wire
