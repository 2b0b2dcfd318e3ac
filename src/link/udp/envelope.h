// Envelope: what the kernel says about a datagram that arrived at a slot socket; and RelayHeader, the same as
// the system daemon writes it in front of a datagram that it passes on.
//
//   relayed datagram = RelayHeader, the datagram as it came     on a unix datagram socket, one for each slot
//
// Both ends of a relay run on one host, so the header is in host byte order.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/octets.h"
#include "wire/gid.h"

namespace rrdma::link {

struct Envelope {
  wire::Gid source;
  wire::Gid destination;
  std::uint16_t source_port = 0;
  std::uint32_t interface_index = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::size_t segment_octets = 0;  // 0: one packet
};

union SenderAddress {
  sockaddr_in v4;
  sockaddr_in6 v6;
};

inline constexpr std::size_t kEnvelopeControlOctets = 256;
inline constexpr std::size_t kDatagramOctetsMax = 65536;

// Nothing where the kernel did not say where the datagram was sent to. REQUIRES: msg_name is a SenderAddress.
[[nodiscard]] std::optional<Envelope> read_envelope(const msghdr& message);

struct RelayHeader {
  wire::Gid source;
  wire::Gid destination;
  std::uint32_t interface_index = 0;
  std::uint32_t segment_octets = 0;
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(RelayHeader) == 48);

[[nodiscard]] RelayHeader relay_header(const Envelope& envelope);
// Nothing when the datagram is shorter than the header, or says what no kernel would.
[[nodiscard]] std::optional<Envelope> read_relay_header(Octets datagram);

}  // namespace rrdma::link
