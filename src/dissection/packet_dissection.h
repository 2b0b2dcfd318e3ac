// Dissection: all facts about one captured packet: the layers that were parsed, and a verdict. Foreign
// traffic (ARP, TCP, other UDP) is distinguished from malformed RoCE. If the capture kept only the beginning
// of a packet, that part is parsed and the ICRC is not checked.
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
  kCut,      // RoCE, only the beginning was captured; no error in that part
  kBad,      // malformed RoCE: see reason
  kForeign,  // not RoCE: see reason
};
[[nodiscard]] std::string_view verdict_name(PacketVerdict verdict);

struct Dissection {
  // Not copyable: the views below may point into filled_up, the padded bytes of a cut packet.
  Dissection() = default;
  Dissection(const Dissection&) = delete;
  Dissection& operator=(const Dissection&) = delete;
  Dissection(Dissection&&) = default;
  Dissection& operator=(Dissection&&) = default;

  PacketVerdict verdict = PacketVerdict::kForeign;
  std::string reason;                        // of kBad, kCut and kForeign
  std::optional<EthernetHeader> ethernet;    // also of foreign packets, if it could be parsed
  std::optional<RoceFrame> frame;            // link, network, UDP and ICRC
  std::optional<TransportPacket> transport;  // headers and payload
  std::optional<MadHeader> mad;              // a datagram for QP1
  std::optional<CmMad> cm;                   // a message of the connection manager
  std::string mad_note;                      // why a MAD is not a message of the connection manager

  std::size_t captured_octets = 0;
  std::size_t original_octets = 0;
  std::size_t link_octets = 0;  // before the network header

  [[nodiscard]] bool is_roce() const { return verdict != PacketVerdict::kForeign; }
  [[nodiscard]] bool icrc_checked() const { return frame.has_value() && verdict != PacketVerdict::kCut; }

  std::vector<std::uint8_t> filled_up;  // a cut packet, padded with zeros
};

// The result's views point into `packet.octets` (or into the result itself).
[[nodiscard]] Dissection dissect(const CapturedPacket& packet);

}  // namespace rrdma::wire
