// The JSON output of `rrdma explain`: the meaning of a code, and the sentences of processes.
#pragma once

#include <span>
#include <string>

#include "host/explain_log.h"
#include "tools/explain/catalogue.h"

namespace rrdma::tools {

[[nodiscard]] std::string topics_json(std::span<const FoundTopic> topics, Language language);
[[nodiscard]] std::string processes_json(std::span<const host::ExplainedProcess> processes,
                                         std::span<const host::ExplainedProcess> all, Language language);

}  // namespace rrdma::tools
