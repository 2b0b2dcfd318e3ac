// Packets as text: one line for each, or a tree of all fields with what each one means. Pure functions;
// colours arrive as a Palette, so that who writes to a terminal decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/packet_dissection.h"
#include "wire/packet_fields.h"

namespace rrdma::wire {

// What is written in front of a piece of text and behind it. Empty: plain text.
struct Palette {
  std::string_view name{};   // opcodes and headers
  std::string_view good{};   // checks that passed
  std::string_view alert{};  // NAKs, and packets that could not be checked
  std::string_view bad{};    // packets that are wrong
  std::string_view faint{};  // explanations, foreign packets
  std::string_view reset{};
};

// "RC SEND ONLY  qp 0x000011  psn 7  ack-req  len 64": what matters of the headers, without addresses.
[[nodiscard]] std::string transport_line(const TransportHeaders& headers, std::size_t payload_octets,
                                         const Palette& palette = {});

// "REQ to RDMA_PS_TCP port 7174  qp 0x000062  psn 9".
[[nodiscard]] std::string cm_line(const CmMad& mad);

// Addresses, transport line, connection manager and verdict; without number and time, and no newline.
// `source`: the queue pair that sent it, where somebody knows that the packet does not tell.
[[nodiscard]] std::string packet_line(const Dissection& packet, const Palette& palette = {},
                                      std::optional<Qpn> source = std::nullopt);

// The children of `root`, one line each, nested; every line ends with a newline.
[[nodiscard]] std::string fields_tree(const Field& root, const Palette& palette = {});

// Octets as "0000  68 65 6c 6c 6f …  hello", sixteen to a line, each line after `indent` blanks.
[[nodiscard]] std::string hex_dump(Octets octets, std::size_t indent);

// Seconds with nine decimals; negative when a capture's clock went back.
[[nodiscard]] std::string seconds_text(std::int64_t ns);

}  // namespace rrdma::wire
