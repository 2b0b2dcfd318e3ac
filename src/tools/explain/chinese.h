// Chinese versions of the sentences that programs recorded in English. A failure with facts is told from its
// facts; any other sentence is found in a table of templates. A sentence that the table lacks stays in
// English.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "host/explain_log.h"

namespace rrdma::tools {

struct SentencePair {
  std::string_view english;  // "sgid_index {} is empty on {}; {}."
  std::string_view chinese;  // values in the same order, or by number: {1}
};
std::span<const SentencePair> chinese_sentences();

[[nodiscard]] std::string in_chinese(std::string_view sentence);
// Of a request. REQUIRES: facts.kind is kSend, kReceive or kRefused.
[[nodiscard]] std::string failure_in_chinese(const host::ExplainFacts& facts);
[[nodiscard]] std::string sentence_in_chinese(const host::Explained& said);

}  // namespace rrdma::tools
