// The table of fault kinds: one row says how a kind is written, where and when it acts, which selectors it
// takes, and the sentence that `rrdma explain` shows. A new kind is one enumerator in rule.h, one row in
// kinds.cc, and the code that injects it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "faults/rule.h"

namespace rrdma::faults {

// The time when a fault acts: at calls and completions that its selectors choose, once, or until it is
// cleared.
enum class Moment : std::uint8_t { kCandidate, kOnce, kUntilCleared };

// The process that a fault acts in. kProcessPackets: both ends must see it as packets (no direct access, no
// trains).
enum class Place : std::uint8_t { kProcess, kProcessPackets, kDaemon };

struct KindRow {
  Kind kind;
  std::string_view word;       // ends with '=' or ':' if a parameter follows
  std::string_view parameter;  // as the manual page names it; empty: none
  Moment moment;
  Place place;
  std::span<const std::string_view> selectors;  // besides pid, after and for, which apply to all
  Result<void, std::string> (*parse)(std::string_view parameter, Rule& rule);  // null: nothing to read
  std::string_view deed;  // the sentence for the program when the fault begins to act; empty: none
};

[[nodiscard]] std::span<const KindRow> kind_rows();
// The first row of a kind. Every kind has one.
[[nodiscard]] const KindRow& row_of(Kind kind);
// The row that `text`, the first word of a rule, is written as. Null: none.
[[nodiscard]] const KindRow* row_for(std::string_view text);
// All ways to write faults of one group, for errors: "port=down, port=up, port=speed:RATE". Empty: no such
// group.
[[nodiscard]] std::string forms_of(std::string_view group);

}  // namespace rrdma::faults
