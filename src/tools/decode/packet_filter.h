// Which packets of a capture are shown: `qp=0x11 peer=10.0.0.2 op=READ errors`, all of them at once.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "wire/numbers.h"
#include "wire/packet_dissection.h"

namespace rrdma::tools {

struct PacketFilter {
  std::optional<wire::Qpn> qp;  // that it goes to or comes from
  std::string peer;             // an address that it goes to or comes from
  std::string operation;        // part of the opcode's name, or of the connection manager's message
  bool errors = false;          // wrong packets, NAKs, RNR NAKs, REJ, and what was harmed on purpose

  [[nodiscard]] bool any() const { return qp || !peer.empty() || !operation.empty() || errors; }
  // `source`: the queue pair that sent it, where that is known.
  [[nodiscard]] bool matches(const wire::Dissection& packet, const wire::CapturedPacket& captured,
                             std::optional<wire::Qpn> source) const;
};

// An error is a sentence about the word that is wrong.
[[nodiscard]] Result<PacketFilter, std::string> parse_filter(std::span<const std::string> words);

// A NAK, an RNR NAK or a REJ.
[[nodiscard]] bool says_no(const wire::Dissection& packet);

}  // namespace rrdma::tools
