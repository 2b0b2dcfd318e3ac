// Dissection: all that can be said about one captured packet: the layers that were read, and a verdict.
// What is foreign (ARP, TCP, other UDP) is told apart from what is RoCE and wrong; a packet of which the
// capture kept only the beginning is read as far as it goes, and its ICRC is left unchecked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "wire/cm_mad.h"
#include "wire/pcap_reader.h"
#include "wire/roce_packet.h"
#include "wire/transport_packet.h"

namespace rrdma::wire {

enum class PacketVerdict : std::uint8_t {
  kGood,     // RoCE, every check passed
  kCut,      // RoCE, only the beginning was captured; what is there is right
  kBad,      // RoCE, and wrong: see reason
  kForeign,  // not RoCE: see reason
};
[[nodiscard]] std::string_view verdict_name(PacketVerdict verdict);

struct Dissection {
  // Views below may point into the octets of a cut packet, filled up here: so it cannot be copied.
  Dissection() = default;
  Dissection(const Dissection&) = delete;
  Dissection& operator=(const Dissection&) = delete;
  Dissection(Dissection&&) = default;
  Dissection& operator=(Dissection&&) = default;

  PacketVerdict verdict = PacketVerdict::kForeign;
  std::string reason;                        // of kBad, kCut and kForeign
  std::optional<EthernetHeader> ethernet;    // also of foreign packets, where it could be read
  std::optional<RoceFrame> frame;            // link, network, UDP and ICRC
  std::optional<TransportPacket> transport;  // headers and payload
  std::optional<MadHeader> mad;              // a datagram for QP1
  std::optional<CmMad> cm;                   // a message of the connection manager
  std::string mad_note;                      // why there is a MAD, but no message of the connection manager

  std::size_t captured_octets = 0;
  std::size_t original_octets = 0;
  std::size_t link_octets = 0;  // in front of the network header

  [[nodiscard]] bool is_roce() const { return verdict != PacketVerdict::kForeign; }
  [[nodiscard]] bool icrc_checked() const { return frame.has_value() && verdict != PacketVerdict::kCut; }

  std::vector<std::uint8_t> filled_up;  // a cut packet, zeros for what is missing
};

// The result's views point into packet.octets (or into the result itself).
[[nodiscard]] Dissection dissect(const CapturedPacket& packet);

}  // namespace rrdma::wire
