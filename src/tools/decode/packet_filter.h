// Selects packets of a capture: `qp=0x11 peer=10.0.0.2 op=READ errors`. All conditions must hold.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "dissection/packet_dissection.h"
#include "wire/numbers.h"

namespace rrdma::tools {

struct PacketFilter {
  std::optional<wire::Qpn> qp;  // source or destination queue pair
  std::string peer;             // source or destination address
  std::string operation;        // part of the name of the opcode or of the connection manager's message
  bool errors = false;          // invalid packets, NAKs, RNR NAKs, REJ, and injected faults

  [[nodiscard]] bool any() const { return qp || !peer.empty() || !operation.empty() || errors; }
  // `source`: the queue pair that sent the packet, if known.
  [[nodiscard]] bool matches(const wire::Dissection& packet, const wire::CapturedPacket& captured,
                             std::optional<wire::Qpn> source) const;
};

// The error is a sentence about the wrong word.
[[nodiscard]] Result<PacketFilter, std::string> parse_filter(std::span<const std::string> words);

// A NAK, an RNR NAK or a REJ.
[[nodiscard]] bool says_no(const wire::Dissection& packet);

}  // namespace rrdma::tools
