// The field tree of a dissected packet: which fields there are, their names in JSON, and what each one
// does. Each header stands here once; printer.h and the JSON form are derived from it.
#pragma once

#include <string>

#include "wire/packet_dissection.h"
#include "wire/packet_field.h"

namespace rrdma::wire {

// The root is a nameless group; its children are the headers in the order of the wire, then payload and
// ICRC. Empty where neither an Ethernet header nor what follows it could be read.
[[nodiscard]] Field packet_fields(const Dissection& packet);

// "12 octets": how a group says its size.
[[nodiscard]] inline std::string octets_text(std::size_t octets) {
  return std::to_string(octets) + " octets";
}

// The headers of a transport packet alone (BTH and extension headers), added to `parent`.
void add_transport_fields(Field& parent, const TransportHeaders& headers);

// MAD header and the message of the connection manager.
void add_mad_fields(Field& parent, const MadHeader& header);
void add_cm_fields(Field& parent, const CmMad& mad);

// "ACK", "RNR NAK, wait 5.12 ms", "NAK: remote access error".
[[nodiscard]] std::string syndrome_text(Aeth aeth);
// "whole region, persistence".
[[nodiscard]] std::string flush_text(Feth feth);
// 4.096 us * 2^code, as the timeouts of the connection manager and of QPs are coded: "67.1 ms".
[[nodiscard]] std::string timeout_text(std::uint8_t code);
// "655.36 ms", "10 us".
[[nodiscard]] std::string duration_text(std::uint64_t ns);

}  // namespace rrdma::wire
