// The MAD by which an RRDMA host asks another whether it is one, too: a Get of a vendor class with our OUI, answered by
// a GetResp with what the other can do. Whoever is no RRDMA answers with a status, or not at all. Nothing in it is
// secret, and nothing but features may be believed because of it.
//
//   MAD header(24) | RMPP header, zero(12) | reserved(1) | OUI(3) | version(2) | reserved(2) | features(4) | epoch(8)
#pragma once

#include <cstdint>

#include "wire/cm_mad.h"
#include "wire/mad.h"

namespace rrdma::wire {

// Locally administered ("R", "D" and a bit that says so), as we have none from the registry.
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
  std::uint64_t epoch = 0;  // chosen when a daemon starts
  friend bool operator==(const Introduction&, const Introduction&) = default;
};

// Whether a MAD belongs here at all: of our class, by its first octets. What a stranger makes of our Get counts.
[[nodiscard]] bool is_introduction(Octets mad);
// Nothing where it is malformed. Of an answer with a status, only the transaction is good.
[[nodiscard]] Result<Introduction, MadError> parse_introduction(Octets mad);
[[nodiscard]] MadBuffer emit_introduction(const Introduction& introduction);

}  // namespace rrdma::wire
