// The MAD by which one RRDMA host detects another: a Get of a vendor class with our OUI, answered by a
// GetResp that lists features. Other implementations answer with a status, or not at all. The MAD is neither
// secret nor authenticated: trust it for features only.
//
//   MAD header(24) | RMPP header, zero(12) | reserved(1) | OUI(3) | version(2) | reserved(2) | features(4) |
//   epoch(8)
#pragma once

#include <cstdint>

#include "wire/cm_mad.h"
#include "wire/mad.h"

namespace rrdma::wire {

// "RRD" with the locally-administered bit: we have no registered OUI.
inline constexpr std::uint32_t kIntroductionOui = 0x525244 | 0x020000;
inline constexpr std::uint8_t kIntroductionClass = 0x34;
inline constexpr std::uint16_t kIntroductionAttribute = 0x0052;
inline constexpr std::uint16_t kIntroductionVersion = 1;

struct Introduction {
  bool answer = false;  // GetResp, not Get
  std::uint16_t status = 0;
  std::uint64_t transaction_id = 0;
  std::uint16_t version = kIntroductionVersion;
  std::uint32_t features = 0;
  std::uint64_t epoch = 0;  // chosen when the daemon starts
  friend bool operator==(const Introduction&, const Introduction&) = default;
};

// Whether a MAD has our management class, by its first bytes. A stranger's reply to our Get has it, too.
[[nodiscard]] bool is_introduction(Octets mad);
// Fails if the MAD is malformed. If the answer has an error status, only the transaction ID is valid.
[[nodiscard]] Result<Introduction, MadError> parse_introduction(Octets mad);
[[nodiscard]] MadBuffer emit_introduction(const Introduction& introduction);

}  // namespace rrdma::wire
