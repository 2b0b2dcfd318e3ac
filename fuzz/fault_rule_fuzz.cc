// Fault rules from arbitrary text. They are rejected with a sentence, or are within their bounds and parse to
// the same rule again.
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "cost.h"
#include "faults/rule.h"
#include "faults/table.h"

namespace rrdma::fault_rule_fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  const auto rules = faults::parse_rules(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!rules) {
    RRDMA_ASSERT(!rules.error().empty());
    return 0;
  }
  for (const faults::Rule& rule : *rules) {
    RRDMA_ASSERT(rule.nth >= 1 && rule.delay.ns >= 0 && rule.after.ns >= 0 && rule.lasts.ns >= 0);
    RRDMA_ASSERT(rule.error >= 0 && rule.error <= 0xffff);
    const auto again = faults::parse_rule(rule.text);
    RRDMA_ASSERT(again.ok() && again->kind == rule.kind && again->error == rule.error &&
                 again->nth == rule.nth && again->network == rule.network);
  }
  // A table must accept times of any length, at any time.
  faults::Table table;
  table.set(faults::Table::Side::kDaemon, *rules, 1, Instant{INT64_C(1) << 60});
  (void)table.next_deadline();
  (void)table.consider_call("ibv_reg_mr", "rrdma0");
  return 0;
}

}  // namespace rrdma::fault_rule_fuzz
