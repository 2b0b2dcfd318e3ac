#include "wire/icrc.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "wire/crc32.h"
#include "wire/grh.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace rrdma::wire {
namespace {

constexpr std::uint8_t kZeros[4] = {};

void mask_ipv4(std::uint8_t* ip) {
  ip[1] = 0xff;            // TOS
  ip[8] = 0xff;            // TTL
  ip[10] = ip[11] = 0xff;  // header checksum
}
// Also the GRH, which has the same layout.
void mask_ipv6(std::uint8_t* ip) {
  ip[0] |= 0x0f;                 // high half of the traffic class
  ip[1] = ip[2] = ip[3] = 0xff;  // its low half and the flow label
  ip[7] = 0xff;                  // hop limit
}
void mask_udp(std::uint8_t* udp) { udp[6] = udp[7] = 0xff; }
void mask_bth(std::uint8_t* bth) { bth[4] = 0xff; }

}  // namespace

// The masked headers of one packet.
struct IcrcSeed::Head {
  std::array<std::uint8_t, kSizeMax + kHeaderOctetsMax> octets;
  std::size_t size;

  [[nodiscard]] Octets view() const { return Octets(octets).first(size); }
};

IcrcSeed IcrcSeed::ipv4(const Ipv4Address& source, const Ipv4Address& destination, std::uint16_t source_port,
                        std::uint16_t destination_port) {
  IcrcSeed seed;
  seed.network_ = Network::kIpv4;
  seed.size_ = kIpv4Octets + kUdpOctets;
  Ipv4Header ip;
  ip.source = source;
  ip.destination = destination;
  emit_ipv4(ip, seed.octets_);
  mask_ipv4(seed.octets_.data());
  std::uint8_t* udp = seed.octets_.data() + kIpv4Octets;
  emit_udp({.source = source_port, .destination = destination_port},
           MutableOctets(seed.octets_).subspan(kIpv4Octets));
  mask_udp(udp);
  return seed;
}

IcrcSeed IcrcSeed::ipv6(const Ipv6Address& source, const Ipv6Address& destination, std::uint16_t source_port,
                        std::uint16_t destination_port) {
  IcrcSeed seed;
  seed.network_ = Network::kIpv6;
  seed.size_ = kIpv6Octets + kUdpOctets;
  Ipv6Header ip;
  ip.source = source;
  ip.destination = destination;
  emit_ipv6(ip, seed.octets_);
  mask_ipv6(seed.octets_.data());
  std::uint8_t* udp = seed.octets_.data() + kIpv6Octets;
  emit_udp({.source = source_port, .destination = destination_port},
           MutableOctets(seed.octets_).subspan(kIpv6Octets));
  mask_udp(udp);
  return seed;
}

IcrcSeed IcrcSeed::roce_v1(const Gid& source, const Gid& destination) {
  IcrcSeed seed;
  seed.network_ = Network::kRoceV1;
  seed.size_ = kGrhOctets;
  Grh grh;
  grh.source = source;
  grh.destination = destination;
  emit_grh(grh, seed.octets_);
  mask_ipv6(seed.octets_.data());
  return seed;
}

// `length` is from the BTH to the end of the ICRC.
IcrcSeed::Head IcrcSeed::head(Octets headers, std::size_t length, std::uint16_t identification) const {
  Head head;
  // Copy the whole array: a copy of constant size is cheaper, and the headers overwrite the excess.
  std::memcpy(head.octets.data(), octets_.data(), kSizeMax);
  std::memcpy(head.octets.data() + size_, headers.data(), headers.size());
  std::uint8_t* p = head.octets.data();
  switch (network_) {
    case Network::kIpv4: {
      const auto udp_length = static_cast<std::uint16_t>(length + kUdpOctets);
      store_be16(p + 2, static_cast<std::uint16_t>(udp_length + kIpv4Octets));
      store_be16(p + 4, identification);
      store_be16(p + kIpv4Octets + 4, udp_length);
      break;
    }
    case Network::kIpv6: {
      const auto udp_length = static_cast<std::uint16_t>(length + kUdpOctets);
      store_be16(p + 4, udp_length);
      store_be16(p + kIpv6Octets + 4, udp_length);
      break;
    }
    case Network::kRoceV1: store_be16(p + 4, static_cast<std::uint16_t>(length)); break;
  }
  mask_bth(p + size_);
  head.size = size_ + headers.size();
  return head;
}

template <typename AddPiece>
std::uint32_t IcrcSeed::icrc_of_pieces(Octets headers, std::span<const Octets> payload, std::uint8_t pad,
                                       std::uint16_t identification, AddPiece add_piece) const {
  RRDMA_ASSERT(headers.size() >= kBthOctets && headers.size() <= kHeaderOctetsMax && pad < 4);
  std::size_t length = headers.size() + pad + kIcrcOctets;
  for (const Octets piece : payload) length += piece.size();
  Crc32 sum(kIcrcStart);
  sum.update(head(headers, length, identification).view());
  for (const Octets piece : payload) add_piece(sum, piece);
  sum.update(Octets(kZeros, pad));
  return sum.value();
}

std::uint32_t IcrcSeed::icrc(Octets headers, std::span<const Octets> payload, std::uint8_t pad,
                             std::uint16_t identification) const {
  return icrc_of_pieces(headers, payload, pad, identification,
                        [](Crc32& sum, Octets piece) { sum.update(piece); });
}

std::uint32_t IcrcSeed::icrc_copying(Octets headers, std::span<const Octets> payload, std::uint8_t pad,
                                     std::uint8_t* to, std::uint16_t identification) const {
  return icrc_of_pieces(headers, payload, pad, identification, [&to](Crc32& sum, Octets piece) {
    sum.update_copying(piece, to);
    to += piece.size();
  });
}

std::uint32_t IcrcSeed::icrc(Octets transport, std::uint16_t identification) const {
  RRDMA_ASSERT(transport.size() >= kBthOctets);
  // A short packet (an ACK, for example) is one sum; of a long one, only the BTH is copied.
  const std::size_t copied = transport.size() <= kHeaderOctetsMax ? transport.size() : kBthOctets;
  Crc32 sum(kIcrcStart);
  sum.update(head(transport.first(copied), transport.size() + kIcrcOctets, identification).view());
  sum.update(transport.subspan(copied));
  return sum.value();
}

std::uint32_t icrc_of_packet(Network network, Octets packet) {
  std::array<std::uint8_t, kIpv4OctetsMax + kUdpOctets + kBthOctets> head;
  std::size_t network_octets = kGrhOctets;
  switch (network) {
    case Network::kIpv4: network_octets = static_cast<std::size_t>(packet[0] & 0x0f) * 4; break;
    case Network::kIpv6: network_octets = kIpv6Octets; break;
    case Network::kRoceV1: network_octets = kGrhOctets; break;
  }
  const std::size_t udp_octets = network == Network::kRoceV1 ? 0 : kUdpOctets;
  const std::size_t head_octets = network_octets + udp_octets + kBthOctets;
  RRDMA_ASSERT(packet.size() >= head_octets);
  std::copy_n(packet.data(), head_octets, head.data());
  if (network == Network::kIpv4) {
    mask_ipv4(head.data());
  } else {
    mask_ipv6(head.data());
  }
  if (udp_octets != 0) mask_udp(head.data() + network_octets);
  mask_bth(head.data() + network_octets + udp_octets);
  Crc32 sum(kIcrcStart);
  sum.update(Octets(head).first(head_octets));
  sum.update(packet.subspan(head_octets));
  return sum.value();
}

}  // namespace rrdma::wire
