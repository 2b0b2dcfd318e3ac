// Texts that programs wrote about themselves into a capture: the program behind each queue pair, and the
// sentences of `rrdma explain` about failed requests.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/explain_facts.h"
#include "wire/gid.h"
#include "wire/pcap_reader.h"

namespace rrdma::tools {

// "QP 0x000011 belongs to rping, process 12": the queue pair and the program. Empty if the comment is
// another.
[[nodiscard]] std::optional<std::pair<std::uint32_t, std::string>> owner_in(std::string_view comment);

struct CaptureExplanation {
  std::int64_t time_ns = 0;  // as in Sighting
  std::uint32_t qpn = 0;
  std::string text;  // "ibv_post_send: SEND of …"
  std::optional<host::ExplainFacts> facts;
};

// "explain: QP 0x000011: ibv_post_send: SEND of …". Empty if the note is another.
[[nodiscard]] std::optional<CaptureExplanation> explanation_in(const wire::CaptureNote& note);

}  // namespace rrdma::tools
