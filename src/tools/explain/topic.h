// Topic: the explanation of one code: a completion status, the cause in a vendor_err, an errno, or a reason
// of the connection manager for a refusal. In English and Chinese. The texts are constants, one file for each
// kind; catalogue.h finds them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace rrdma::tools {

enum class Language : std::uint8_t { kEnglish, kChinese };

struct Phrase {
  std::string_view english{};
  std::string_view chinese{};

  [[nodiscard]] std::string_view in(Language language) const {
    return language == Language::kChinese ? chinese : english;
  }
  [[nodiscard]] bool empty() const { return english.empty(); }
};

enum class TopicKind : std::uint8_t {
  kCompletion,  // ibv_wc_status
  kCause,       // highest byte of vendor_err
  kErrno,
  kReject,        // reason of a REJ: status of RDMA_CM_EVENT_REJECTED
  kSidr,          // status of a SIDR_REP: the same event, for RDMA_PS_UDP
  kConnectEvent,  // rdma_cm_event_type
};

struct Topic {
  static constexpr std::size_t kLinesMax = 4;

  TopicKind kind;
  std::uint32_t code;
  std::string_view name;    // IBV_WC_RETRY_EXC_ERR
  std::string_view phrase;  // as libraries print it: "transport retry counter exceeded"; may be empty
  Phrase meaning;
  std::array<Phrase, kLinesMax> causes{};  // the usual causes, most likely first; unused entries are empty
  std::array<Phrase, kLinesMax> checks{};  // what to check or do
};

std::span<const Topic> completion_topics();
std::span<const Topic> cause_topics();
std::span<const Topic> errno_topics();
std::span<const Topic> reject_topics();
std::span<const Topic> sidr_topics();
std::span<const Topic> connect_event_topics();

}  // namespace rrdma::tools
