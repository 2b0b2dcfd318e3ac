// The meaning of a finding and its remedy, from the texts of `rrdma explain` if there is a code for it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "inspect/analysis.h"
#include "tools/explain/topic.h"

namespace rrdma::tools {

// {"kind", "grave", "title", "meaning", "causes", "checks"}; texts are pairs [English, Chinese].
[[nodiscard]] nlohmann::ordered_json finding_json(const CaptureFinding& finding);

// Causes and checks of a topic, in the same form.
[[nodiscard]] nlohmann::ordered_json topic_json(const Topic& topic);

}  // namespace rrdma::tools
