// The field tree of a dissected packet: the fields, their names in JSON, and their meaning. Each header is
// described once, here; printer.h and the JSON form derive from it.
#pragma once

#include <string>

#include "dissection/packet_dissection.h"
#include "dissection/packet_field.h"

namespace rrdma::wire {

// The root is a nameless group. Its children are the headers in wire order, then payload and ICRC. Empty if
// neither an Ethernet header nor anything behind it could be parsed.
[[nodiscard]] Field packet_fields(const Dissection& packet);

// The text for the size of a group.
[[nodiscard]] inline std::string octets_text(std::size_t octets) { return std::to_string(octets) + " bytes"; }

// Adds the headers of a transport packet (BTH and extension headers) to `parent`.
void add_transport_fields(Field& parent, const TransportHeaders& headers);

// Add the MAD header and the message of the connection manager.
void add_mad_fields(Field& parent, const MadHeader& header);
void add_cm_fields(Field& parent, const CmMad& mad);

// "ACK", "RNR NAK, wait 5.12 ms", "NAK: remote access error".
[[nodiscard]] std::string syndrome_text(Aeth aeth);
// "whole region, persistence".
[[nodiscard]] std::string flush_text(Feth feth);
// 4.096 us * 2^code, the timeout code of the connection manager and of QPs: "67.1 ms".
[[nodiscard]] std::string timeout_text(std::uint8_t code);
// "655.36 ms", "10 us".
[[nodiscard]] std::string duration_text(std::uint64_t ns);

}  // namespace rrdma::wire
