// Finds topics by words on the command line: a name (IBV_WC_RETRY_EXC_ERR, EINVAL), a phrase that a library
// printed, a number, or a number with a kind (wc:12, errno:22, reject:8, sidr:1, event:8,
// vendor_err:0x24000010).
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

// All possible topics, the most likely first. Empty if there is none. A number without a kind matches every
// code of that value; a number above 24 bits is a vendor_err.
[[nodiscard]] std::vector<FoundTopic> find_topics(std::string_view words);

[[nodiscard]] std::vector<const Topic*> all_topics();
// For a cause: without the PSN. Null if there is none.
[[nodiscard]] const Topic* find_topic(TopicKind kind, std::uint32_t code);

// The name of a kind for people ("completion status"), and its prefix on the command line ("wc").
[[nodiscard]] Phrase kind_name(TopicKind kind);
[[nodiscard]] std::string_view kind_prefix(TopicKind kind);

// The language of the option ("zh" or "en"). Otherwise that of the first of LC_ALL, LC_MESSAGES and LANG that
// is set.
[[nodiscard]] Language choose_language(std::string_view option);

}  // namespace rrdma::tools
