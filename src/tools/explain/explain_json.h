// The JSON forms of `rrdma explain`, as finished text: what a code means, and what processes left behind.
#pragma once

#include <span>
#include <string>

#include "host/explain_log.h"
#include "tools/explain/catalogue.h"

namespace rrdma::tools {

[[nodiscard]] std::string topics_json(std::span<const FoundTopic> topics, Language language);
[[nodiscard]] std::string processes_json(std::span<const host::ExplainedProcess> processes,
                                         Language language);

}  // namespace rrdma::tools
