// Fault specifications from arbitrary text. Accepted input has the same meaning when it is written and parsed
// again.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "cost.h"
#include "link/fault_spec.h"

namespace rrdma::fault_spec_fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  using namespace rrdma::link;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto spec = parse_fault_spec(text);
  if (!spec) {
    RRDMA_ASSERT(!spec.error().empty());
    return 0;
  }
  RRDMA_ASSERT(spec->drop_ppm <= 1'000'000 && spec->duplicate_ppm <= 1'000'000 &&
               spec->reorder_ppm <= 1'000'000 && spec->corrupt_ppm <= 1'000'000 &&
               spec->ecn_ppm <= 1'000'000);
  RRDMA_ASSERT(spec->burst >= 1 && spec->burst <= kBurstMax && spec->depth <= kDepthMax);
  RRDMA_ASSERT(spec->delay.ns >= 0 && spec->delay_spread.ns >= 0);
  const auto again = parse_fault_spec(emit_fault_spec(*spec));
  RRDMA_ASSERT(again.ok() && *again == *spec);
  return 0;
}

}  // namespace rrdma::fault_spec_fuzz
