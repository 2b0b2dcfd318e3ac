// FaultSpec: what goes wrong on purpose, as people write it on a command line and as the simulated
// network and the fault decorator read it. Chances are parts per million, so that no decision depends
// on floating point.
//
//   spec  := item { "," item }
//   item  := ("drop" | "dup" | "reorder" | "corrupt" | "ecn") "=" chance
//          | "delay" "=" time [ ("±" | "+-") time ]
//          | ("burst" | "depth") "=" number
//          | "rate" "=" rate                            bits in a second
//          | "mtu" "=" number                           octets of payload
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
  std::uint32_t burst = 1;  // of `drop_ppm`: how many in a row are lost, on average (Gilbert and Elliott)
  std::uint32_t reorder_ppm = 0;  // held back long enough that later packets overtake it
  std::uint32_t depth = 0;        // of `reorder_ppm`: how many packets overtake it at most; 0: a few
  std::uint32_t corrupt_ppm = 0;  // one bit is flipped
  std::uint32_t ecn_ppm = 0;      // marked "congestion experienced"
  Duration delay;                 // every packet, on top of what the link takes
  Duration delay_spread;          // uniformly, that much less or more
  std::uint64_t rate_kbps =
      0;                  // what is sent waits for its turn on a cable that is so slow; 0: no such cable
  std::uint32_t mtu = 0;  // larger payloads vanish, and nobody is told; 0: all sizes pass
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

// An error is one sentence that names the item and says what is allowed. The empty text is "no faults".
Result<FaultSpec, std::string> parse_fault_spec(std::string_view text);

// What parse_fault_spec() reads back to the same value.
std::string emit_fault_spec(const FaultSpec& spec);

// The parts of it, shared with tools that take such measures. "50us"; "1.5 ms" is refused: no blanks inside.
Result<Duration, std::string> parse_duration(std::string_view text);
Result<std::uint64_t, std::string> parse_rate(std::string_view text);  // in kilobits a second, never 0
Result<std::uint32_t, std::string> parse_chance(std::string_view name, std::string_view text);  // in ppm
// How long a frame with so many octets from its BTH to its pad is on the slow cable. REQUIRES: there is one.
Duration time_on_cable(const FaultSpec& spec, std::size_t transport_octets);
std::string emit_duration(Duration time);
std::string emit_rate(std::uint64_t kilobits);
std::string emit_chance(std::uint32_t ppm);

}  // namespace rrdma::link
