// The explain log of processes as text: program and state, then its sentences with remedies, errors first and
// newest first.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dissection/printer.h"
#include "host/explain_log.h"
#include "tools/explain/catalogue.h"

namespace rrdma::tools {

struct Style {
  Language language;
  wire::Palette palette;
  std::size_t columns;
};

// `all`: the processes whose logs may hold the other end of a failure.
[[nodiscard]] std::string text_of_process(const host::ExplainedProcess& process,
                                          std::span<const host::ExplainedProcess> all, const Style& style);

// The sentence in that language, safe for a terminal.
[[nodiscard]] std::string text_in(const host::Explained& said, Language language);

// The record of the other end about a failed request; null if that end is not on this host.
struct OtherSide {
  const host::ExplainedProcess* process = nullptr;
  const host::Explained* said = nullptr;
};
[[nodiscard]] OtherSide find_other_side(const host::Explained& said,
                                        std::span<const host::ExplainedProcess> all);

// The checks of the matching topic: of the cause, the status or the reason.
[[nodiscard]] std::vector<std::string_view> remedies_of(const host::ExplainFacts& facts, Language language);

[[nodiscard]] std::string_view severity_name(host::Severity severity);
// "IBV_WC_RETRY_EXC_ERR"; "?" for an unknown number.
[[nodiscard]] std::string_view status_name(std::uint8_t status);
// "send", "receive", "refused", "rejected".
[[nodiscard]] std::string_view failure_kind_name(std::uint8_t kind);
// "silence", "sequence NAK", "RNR NAK".
[[nodiscard]] std::string_view attempt_name(std::uint8_t why);

}  // namespace rrdma::tools
