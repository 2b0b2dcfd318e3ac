// FaultSpec: faults to inject, as users write them on a command line and as the simulated network and the
// fault decorators read them. Probabilities are parts per million, so that no decision depends on floating
// point.
//
//   spec  := item { "," item }
//   item  := ("drop" | "dup" | "reorder" | "corrupt" | "ecn") "=" chance
//          | "delay" "=" time [ ("±" | "+-") time ]
//          | ("burst" | "depth") "=" number
//          | "rate" "=" rate                            bits per second
//          | "mtu" "=" number                           bytes of payload
//          | "seed" "=" number
//   chance := decimal ("%" | "ppm")          time := decimal ("ns" | "us" | "µs" | "ms" | "s")
//   rate   := decimal ("K" | "M" | "G" | "T") [ "bit" | "bit/s" | "b/s" ]         in either case
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/instant.h"
#include "base/result.h"

namespace rrdma::link {

struct FaultSpec {
  std::uint32_t drop_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t burst = 1;        // of `drop_ppm`: mean number of consecutive losses (Gilbert-Elliott)
  std::uint32_t reorder_ppm = 0;  // held back until later packets overtake it
  std::uint32_t depth = 0;        // of `reorder_ppm`: the most packets that overtake it; 0: a few
  std::uint32_t corrupt_ppm = 0;  // one bit is flipped
  std::uint32_t ecn_ppm = 0;      // marked "congestion experienced"
  Duration delay;                 // of every packet, on top of the link's own
  Duration delay_spread;          // uniform, up to this much less or more
  std::uint64_t rate_kbps = 0;    // packets queue for a cable of this speed; 0: no such cable
  std::uint32_t mtu = 0;          // larger payloads are dropped silently; 0: all sizes pass
  std::uint64_t seed = 1;

  [[nodiscard]] bool loses() const { return drop_ppm != 0 || corrupt_ppm != 0 || mtu != 0; }
  [[nodiscard]] bool any() const {
    return loses() || duplicate_ppm != 0 || reorder_ppm != 0 || ecn_ppm != 0 || delay.ns != 0 ||
           delay_spread.ns != 0 || rate_kbps != 0;
  }
  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;
};

inline constexpr std::uint32_t kBurstMax = 1000;
inline constexpr std::uint32_t kDepthMax = 1024;
inline constexpr std::uint32_t kFaultMtuMax = 4096;

//An error is one sentence that names the item and the allowed values. Empty text means no faults.
Result<FaultSpec, std::string> parse_fault_spec(std::string_view text);

// parse_fault_spec() reads the result back to the same value.
std::string emit_fault_spec(const FaultSpec& spec);

// The parsers of the parts, shared with tools that take such values. "50us" is accepted; "1.5 ms" is refused:
// no blanks.
Result<Duration, std::string> parse_duration(std::string_view text);
Result<std::uint64_t, std::string> parse_rate(std::string_view text);  // in kilobits per second, never 0
Result<std::uint32_t, std::string> parse_chance(std::string_view name, std::string_view text);  // in ppm
// Time on the slow cable of a frame with this many bytes from its BTH to its pad. REQUIRES: rate_kbps is not
// 0.
Duration time_on_cable(const FaultSpec& spec, std::size_t transport_octets);
std::string emit_duration(Duration time);
std::string emit_rate(std::uint64_t kilobits);
std::string emit_chance(std::uint32_t ppm);

}  // namespace rrdma::link
