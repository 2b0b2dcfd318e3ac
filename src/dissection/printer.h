// Packets as text: one line for each, or a tree of all fields with their meaning. Pure functions. Colours
// arrive as a Palette; the caller knows whether it writes to a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dissection/packet_dissection.h"
#include "dissection/packet_fields.h"

namespace rrdma::wire {

// The escape sequences around a piece of text. Empty: plain text.
struct Palette {
  std::string_view name{};   // opcodes and headers
  std::string_view good{};   // checks that passed
  std::string_view alert{};  // NAKs, and packets that could not be checked
  std::string_view bad{};    // malformed packets
  std::string_view faint{};  // explanations, foreign packets
  std::string_view reset{};
};

// "RC SEND ONLY  qp 0x000011  psn 7  ack-req  len 64": the essential header fields, without addresses.
[[nodiscard]] std::string transport_line(const TransportHeaders& headers, std::size_t payload_octets,
                                         const Palette& palette = {});

// "REQ to RDMA_PS_TCP port 7174  qp 0x000062  psn 9".
[[nodiscard]] std::string cm_line(const CmMad& mad);

// Addresses, transport line, connection manager and verdict, without number, time or newline. `source`: the
// sending QP, if the caller knows it; the packet does not carry it.
[[nodiscard]] std::string packet_line(const Dissection& packet, const Palette& palette = {},
                                      std::optional<Qpn> source = std::nullopt);

// The children of `root`, one line each, nested; every line ends with a newline.
[[nodiscard]] std::string fields_tree(const Field& root, const Palette& palette = {});

// Bytes as "0000  68 65 6c 6c 6f …  hello", sixteen to a line, each line after `indent` spaces.
[[nodiscard]] std::string hex_dump(Octets octets, std::size_t indent);

// Seconds with nine decimals; negative if the clock of a capture went backwards.
[[nodiscard]] std::string seconds_text(std::int64_t ns);

}  // namespace rrdma::wire
