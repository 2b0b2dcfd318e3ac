// Selects packets of a capture: `qp=0x11 peer=10.0.0.2 op=READ len>1000 errors`. All conditions must hold.
// The page of `rrdma inspect` has the same language (inspector/src/filter.ts).
//
//   condition = qp=N | peer=ADDRESS | op=NAME | psn(=|<|>)N | len(=|<|>)N | rkey=N | status=ANSWER | errors
//   ANSWER = ack | nak | rnr | sequence | invalid | access | operational | rej
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "dissection/packet_dissection.h"
#include "wire/numbers.h"

namespace rrdma::tools {

// A number compared with the value of a packet. Nothing: every packet fits.
struct NumberTest {
  char how = 0;  // '=', '<', '>'; 0: no test
  std::uint64_t number = 0;

  [[nodiscard]] bool holds(std::uint64_t value) const {
    return how == 0 || (how == '=' ? value == number : how == '<' ? value < number : value > number);
  }
};

struct PacketFilter {
  std::optional<wire::Qpn> qp;  // source or destination queue pair
  std::string peer;             // source or destination address
  std::string operation;        // part of the name of the opcode or of the connection manager's message
  NumberTest psn;
  NumberTest length;    // payload bytes
  NumberTest rkey;      // of a RETH or AtomicETH
  std::string status;   // the answer that a packet gives; see above
  bool errors = false;  // invalid packets, NAKs, RNR NAKs, REJ, and injected faults

  [[nodiscard]] bool any() const {
    return qp || !peer.empty() || !operation.empty() || psn.how != 0 || length.how != 0 || rkey.how != 0 ||
           !status.empty() || errors;
  }
  // `source`: the queue pair that sent the packet, if known.
  [[nodiscard]] bool matches(const wire::Dissection& packet, const wire::CapturedPacket& captured,
                             std::optional<wire::Qpn> source) const;
};

// The error is a sentence about the wrong word.
[[nodiscard]] Result<PacketFilter, std::string> parse_filter(std::span<const std::string> words);

// A NAK, an RNR NAK or a REJ.
[[nodiscard]] bool says_no(const wire::Dissection& packet);

}  // namespace rrdma::tools
