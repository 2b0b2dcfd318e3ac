// Converts an engine's frame to the bytes on a simulated cable, and back. The headers are those of a real
// network, ICRC included; MAC addresses are derived from the host's number.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/octets.h"
#include "objects/frame.h"
#include "wire/address.h"
#include "wire/frame_error.h"
#include "wire/grh.h"
#include "wire/transport_packet.h"

namespace rrdma::link {

[[nodiscard]] wire::MacAddress sim_mac(std::uint32_t host);

// Writes the whole Ethernet frame to `octets` (resized to fit).
void emit_sim_frame(const objects::Frame& frame, std::uint32_t from, std::uint32_t to,
                    std::vector<std::uint8_t>& octets);

// Sets "congestion experienced" in the IP header if the sender declared ECN support. False if not.
bool mark_congestion(MutableOctets frame);

enum class SimVerdict : std::uint8_t { kGood, kFrameRefused, kIcrcRefused, kTransportRefused };

struct SimPacket {
  wire::TransportPacket packet;
  objects::PacketOrigin origin;  // its grh points to `grh`
  std::array<std::uint8_t, wire::kGrhOctets> grh{};
};

// Performs every check of a host before its engine sees a packet. `result` points into `frame`.
SimVerdict parse_sim_frame(Octets frame, std::uint32_t host, SimPacket& result);

}  // namespace rrdma::link
