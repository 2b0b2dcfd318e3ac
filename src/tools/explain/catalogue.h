// Finds the topics that words on a command line mean: a name (IBV_WC_RETRY_EXC_ERR, EINVAL), the phrase
// that a library printed, a number, or a number with its kind in front (wc:12, errno:22, reject:8,
// sidr:1, event:8, vendor_err:0x24000010).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/explain/topic.h"

namespace rrdma::tools {

struct FoundTopic {
  const Topic* topic = nullptr;
  std::optional<std::uint32_t> psn;  // of a vendor_err
};

// All that the words may mean, the likeliest first; empty if nothing is known by that name. A number
// without a kind means every code of that value; one above 24 bits is a vendor_err.
[[nodiscard]] std::vector<FoundTopic> find_topics(std::string_view words);

[[nodiscard]] std::vector<const Topic*> all_topics();
// Of a cause: without the PSN. Null if there is none.
[[nodiscard]] const Topic* find_topic(TopicKind kind, std::uint32_t code);

// "completion status", "wc": the kind for people, and as it stands before a colon.
[[nodiscard]] Phrase kind_name(TopicKind kind);
[[nodiscard]] std::string_view kind_prefix(TopicKind kind);

// "zh" or "en" of an option; otherwise what LC_ALL, LC_MESSAGES or LANG, the first that is set, says.
[[nodiscard]] Language choose_language(std::string_view option);

}  // namespace rrdma::tools
