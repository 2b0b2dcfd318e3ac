// RoceFrame: a whole RoCE frame as a value: the link, network and UDP headers around a transport packet, and
// the verdict on its ICRC. It does not interpret the transport packet (transport_packet.h does).
//
//   Ethernet [802.1Q] { IPv4 | IPv6 } UDP-4791 transport ICRC [trailer]      RoCE v2
//   Ethernet [802.1Q] GRH transport ICRC [trailer]                           RoCE v1
//
// The views of a parsed frame point into the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "base/octets.h"
#include "base/result.h"
#include "wire/ethernet.h"
#include "wire/frame_error.h"
#include "wire/grh.h"
#include "wire/icrc.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/link_type.h"
#include "wire/udp.h"

namespace rrdma::wire {

enum class ChecksumVerdict : std::uint8_t {
  kNone,  // the field is 0, or there is no UDP header
  kRight,
  kWrong,  // or not filled in yet, in a capture on the sending host
};

struct RoceFrame {
  std::optional<EthernetHeader> ethernet;  // empty if the link carries IP directly
  std::variant<Ipv4Header, Ipv6Header, Grh> network;
  UdpHeader udp;           // zero in RoCE v1
  Octets transport;        // from the BTH to the end of the pad
  std::uint32_t icrc = 0;  // as received
  std::uint32_t icrc_expected = 0;
  ChecksumVerdict udp_checksum = ChecksumVerdict::kNone;
  Octets trailer;  // behind the ICRC: padding of short frames, or a frame check sequence

  [[nodiscard]] Network network_kind() const { return static_cast<Network>(network.index()); }
  [[nodiscard]] bool icrc_right() const { return icrc == icrc_expected; }
};

// A frame that begins with an Ethernet header.
[[nodiscard]] Result<RoceFrame, FrameError> parse_frame(Octets frame);
// A frame from a capture of this link type.
[[nodiscard]] Result<RoceFrame, FrameError> parse_frame(LinkType link, Octets frame);

// The number of bytes that emit_frame() writes.
[[nodiscard]] std::size_t frame_octets(const RoceFrame& frame);

// Writes the frame with correct lengths, checksums and ICRC, whatever these fields of the value hold; a UDP
// checksum of 0 stays 0. Returns frame_octets(frame). REQUIRES: room for them; a transport of at least
// kBthOctets, within what IP can carry.
std::size_t emit_frame(const RoceFrame& frame, MutableOctets to);

}  // namespace rrdma::wire
