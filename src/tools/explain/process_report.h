// The explain log of processes as text: program and state, then its sentences with remedies, errors first and
// newest first.
#pragma once

#include <cstddef>
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

[[nodiscard]] std::string text_of_process(const host::ExplainedProcess& process, const Style& style);

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
