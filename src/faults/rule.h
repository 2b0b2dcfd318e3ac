// Rule: one injected fault above the level of single packets, as one line of text (docs/man/rrdma-fault.1):
//
//   rule     = what, { " ", selector }                                       kinds.cc has the table of `what`
//   what     = verb=FUNCTION:ERRNO | slow=FUNCTION:TIME | status=STATUS      the next, or with :N the N-th
//            | qp=error | cq=overrun | srq=limit                             every object that exists then
//            | qp=rnr | cq=delay:TIME | port=down | port=up | port=speed:RATE | device=fatal | freeze
//            | gid=lost | gid=add:ADDRESS | gid=change:ADDRESS
//            | net=SPEC                                                      as in link/fault_spec.h
//            | cm=drop:MESSAGE | cm=reject:REASON | cm=timewait | cm=timewait:TIME | cm=address
//   selector = pid=N | device=NAME | qp=N | peer=ADDRESS{,ADDRESS} | direction=in|out|both | nth=N | every=N
//            | count=N | after=TIME | for=TIME | seed=N
//
// `nth`, `every` and `count` refer to the candidates of the rule: calls of its function, completions of its
// queue pairs. By default a rule acts once, on the next candidate; `every=1` acts on each. `after` and `for`
// count from the moment when the rule was set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "base/result.h"
#include "link/fault_spec.h"
#include "wire/gid.h"

namespace rrdma::faults {

enum class Kind : std::uint8_t {
  kVerb,
  kSlowVerb,
  kStatus,
  kQpError,
  kCqOverrun,
  kSrqLimit,
  kPortDown,
  kPortUp,
  kDeviceFatal,
  kGidLost,
  kNetwork,
  kFreeze,
  kCmDrop,
  kCmReject,
  kCmAddress,
  kPortSpeed,
  kGidAdded,
  kGidChanged,
  kRnr,
  kCqDelay,
  kCmTimewait,
};

// kUsual: the default direction of the fault.
enum class Direction : std::uint8_t { kUsual, kOut, kIn, kBoth };

struct Rule {
  std::uint32_t number = 0;  // identifies it in lists and explanations
  std::string text;          // as written by the user
  Kind kind{};
  std::string function;  // kVerb, kSlowVerb
  int error = 0;         // kVerb: errno; kStatus: ibv_wc_status; kCmDrop: attribute ID; kCmReject: the reason
  Duration delay;        // kSlowVerb, kCqDelay, kCmTimewait
  std::uint64_t speed_mbps = 0;  // kPortSpeed
  wire::Gid address;             // kGidAdded, kGidChanged
  link::FaultSpec network;       // kNetwork

  std::uint32_t pid = 0;  // 0: all
  std::string device;     // empty: all
  std::optional<std::uint32_t> qpn;
  std::vector<wire::Gid> peers;             // empty: all
  Direction direction = Direction::kUsual;  // kNetwork
  std::uint64_t nth = 1;
  std::uint64_t every = 0;  // 0: only the nth
  std::uint64_t count = 0;  // maximum; 0: no limit
  Duration after;
  Duration lasts;  // 0: forever

  // Answers of the table of kinds (kinds.h). acts(): at a point in time, not at a call.
  [[nodiscard]] bool acts() const;
  // Stays until it is cleared or its time is over, instead of acting at one moment.
  [[nodiscard]] bool persists() const;
  // Affects the connection manager, which is part of the daemon.
  [[nodiscard]] bool is_for_daemon() const;
  // Both ends must see the faults as packets.
  [[nodiscard]] bool disturbs_packets() const;
  // The sentence for the program when the fault begins to act; empty: none.
  [[nodiscard]] std::string_view deed() const;

  [[nodiscard]] bool concerns_peer(const wire::Gid& peer) const;
  // Whether the rule injects its fault into the n-th candidate, n from 1.
  [[nodiscard]] bool injects(std::uint64_t n) const;
};

// The error is a sentence.
[[nodiscard]] Result<Rule, std::string> parse_rule(std::string_view text);
// Several rules, separated by semicolons or newlines; numbered from 1.
[[nodiscard]] Result<std::vector<Rule>, std::string> parse_rules(std::string_view text);

}  // namespace rrdma::faults
