// What processes left in the explain channel, as text for people: program and state, then its sentences,
// errors before the rest and the newest first, with what to do.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "host/explain_log.h"
#include "tools/explain/catalogue.h"
#include "wire/printer.h"

namespace rrdma::tools {

struct Style {
  Language language;
  wire::Palette palette;
  std::size_t columns;
};

[[nodiscard]] std::string text_of_process(const host::ExplainedProcess& process, const Style& style);

// The checks of the topic that fits: of the cause, of the status, of the reason.
[[nodiscard]] std::vector<std::string_view> remedies_of(const host::ExplainFacts& facts, Language language);

[[nodiscard]] std::string_view severity_name(host::Severity severity);
// "IBV_WC_RETRY_EXC_ERR"; "?" if there is none of that number.
[[nodiscard]] std::string_view status_name(std::uint8_t status);
// "send", "receive", "refused", "rejected".
[[nodiscard]] std::string_view failure_kind_name(std::uint8_t kind);
// "silence", "sequence NAK", "RNR NAK".
[[nodiscard]] std::string_view attempt_name(std::uint8_t why);

}  // namespace rrdma::tools
