// The invariant CRC: CRC-32 over everything that must not change in transit, with the variable fields set to
// ones. It starts with 8 bytes of ones (for the LRH, which RoCE lacks). It covers IP header, UDP header (or
// the GRH of RoCE v1), BTH, extension headers, payload and pad. Set to ones: TOS / traffic class, flow label,
// TTL / hop limit, IPv4 header checksum, UDP checksum, and byte 4 of the BTH. On the wire, the least
// significant byte comes first.
//
// IcrcSeed holds the constant part of a flow; it is computed once and reused. IPv4 also covers identification
// and DF, which a UDP socket neither chooses nor sees. The sender knows them (0, or 0, 1, 2, … within a
// segmented send; DF set); for the receiver, see identification_solver.h. If the whole IPv4 header is
// available, icrc_of_packet() is the exact sum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/octets.h"
#include "wire/address.h"
#include "wire/opcode.h"
#include "wire/udp.h"

namespace rrdma::wire {

// The value of Crc32 after 8 bytes of ones.
inline constexpr std::uint32_t kIcrcStart = 0x2144df1c;

enum class Network : std::uint8_t { kIpv4, kIpv6, kRoceV1 };

class IcrcSeed {
 public:
  // Assumes that DF is set.
  [[nodiscard]] static IcrcSeed ipv4(const Ipv4Address& source, const Ipv4Address& destination,
                                     std::uint16_t source_port,
                                     std::uint16_t destination_port = kRoceUdpPort);
  [[nodiscard]] static IcrcSeed ipv6(const Ipv6Address& source, const Ipv6Address& destination,
                                     std::uint16_t source_port,
                                     std::uint16_t destination_port = kRoceUdpPort);
  [[nodiscard]] static IcrcSeed roce_v1(const Gid& source, const Gid& destination);

  [[nodiscard]] Network network() const { return network_; }
  // The size of the network headers that the seed covers.
  [[nodiscard]] std::size_t octets() const { return size_; }

  // The ICRC of a packet to be sent: `headers` from the BTH on, `payload` gathered from its pieces, then
  // `pad` zero bytes. Copies only the headers. REQUIRES: kBthOctets <= headers.size() <= kHeaderOctetsMax,
  // pad < 4, a length that IP can carry.
  [[nodiscard]] std::uint32_t icrc(Octets headers, std::span<const Octets> payload, std::uint8_t pad,
                                   std::uint16_t identification = 0) const;
  // The same, and copies the payload to `to` (see crc32_copy()).
  [[nodiscard]] std::uint32_t icrc_copying(Octets headers, std::span<const Octets> payload, std::uint8_t pad,
                                           std::uint8_t* to, std::uint16_t identification = 0) const;
  // The expected ICRC for `transport`, from the BTH to the end of the pad. REQUIRES: transport.size() >=
  // kBthOctets.
  [[nodiscard]] std::uint32_t icrc(Octets transport, std::uint16_t identification = 0) const;

 private:
  static constexpr std::size_t kSizeMax = 48;  // IPv6 and UDP
  struct Head;

  IcrcSeed() = default;
  [[nodiscard]] Head head(Octets headers, std::size_t length, std::uint16_t identification) const;
  template <typename AddPiece>
  [[nodiscard]] std::uint32_t icrc_of_pieces(Octets headers, std::span<const Octets> payload,
                                             std::uint8_t pad, std::uint16_t identification,
                                             AddPiece add_piece) const;

  std::array<std::uint8_t, kSizeMax> octets_{};  // masked; lengths and identification are zero
  std::uint8_t size_ = 0;
  Network network_ = Network::kIpv4;
};

[[nodiscard]] inline std::uint32_t load_icrc(const std::uint8_t* from) {
  return swap_octets(load_be32(from));
}
inline void store_icrc(std::uint8_t* to, std::uint32_t icrc) { store_be32(to, swap_octets(icrc)); }

// The full check of a received packet, `transport` from the BTH to the end of the ICRC. For IPv4, it assumes
// the given identification and DF set.
[[nodiscard]] inline bool icrc_matches(const IcrcSeed& seed, Octets transport,
                                       std::uint16_t identification = 0) {
  if (transport.size() < kBthOctets + kIcrcOctets) return false;
  const Octets covered = transport.first(transport.size() - kIcrcOctets);
  return seed.icrc(covered, identification) == load_icrc(covered.data() + covered.size());
}

// The exact ICRC of a whole captured packet. `packet` starts with the IP header or GRH and ends with the pad.
// REQUIRES: these headers and a BTH are present (parse_frame checks that).
[[nodiscard]] std::uint32_t icrc_of_packet(Network network, Octets packet);

}  // namespace rrdma::wire
