#include "wire/udp.h"

#include "base/assert.h"
#include "wire/internet_checksum.h"
#include "wire/ipv4.h"

namespace rrdma::wire {
namespace {

// Both pseudo-headers sum the same words: addresses, protocol and length. (IPv6 has a 32-bit length, but no
// RoCE packet comes near 64 KiB.)
template <typename Address>
std::uint16_t checksum_over(const Address& source, const Address& destination, const UdpHeader& header,
                            Octets payload) {
  InternetChecksum sum;
  sum.add(source.octets);
  sum.add(destination.octets);
  sum.add_be16(kIpProtocolUdp);
  sum.add_be16(header.length);
  sum.add_be16(header.source);
  sum.add_be16(header.destination);
  sum.add_be16(header.length);
  sum.add(payload);
  const std::uint16_t checksum = sum.inverted();
  return checksum == 0 ? std::uint16_t{0xffff} : checksum;
}

}  // namespace

Result<UdpHeader, FrameError> parse_udp(Octets datagram) {
  if (datagram.size() < kUdpOctets) return Failure{FrameError::kUdpTooShort};
  const std::uint8_t* p = datagram.data();
  const UdpHeader header{.source = load_be16(p),
                         .destination = load_be16(p + 2),
                         .length = load_be16(p + 4),
                         .checksum = load_be16(p + 6)};
  if (header.length != datagram.size()) return Failure{FrameError::kUdpLength};
  return header;
}

std::size_t emit_udp(const UdpHeader& header, MutableOctets to) {
  RRDMA_ASSERT(to.size() >= kUdpOctets);
  store_be16(to.data(), header.source);
  store_be16(to.data() + 2, header.destination);
  store_be16(to.data() + 4, header.length);
  store_be16(to.data() + 6, header.checksum);
  return kUdpOctets;
}

std::uint16_t udp_checksum(const Ipv4Address& source, const Ipv4Address& destination, const UdpHeader& header,
                           Octets payload) {
  return checksum_over(source, destination, header, payload);
}

std::uint16_t udp_checksum(const Ipv6Address& source, const Ipv6Address& destination, const UdpHeader& header,
                           Octets payload) {
  return checksum_over(source, destination, header, payload);
}

}  // namespace rrdma::wire
