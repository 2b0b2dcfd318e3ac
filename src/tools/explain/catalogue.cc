#include "tools/explain/catalogue.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "objects/cause.h"

namespace rrdma::tools {
namespace {

constexpr std::array kKinds = {TopicKind::kCompletion, TopicKind::kErrno,        TopicKind::kReject,
                               TopicKind::kSidr,       TopicKind::kConnectEvent, TopicKind::kCause};
constexpr std::uint32_t kPsnValues = 1u << 24;

std::span<const Topic> topics_of(TopicKind kind) {
  switch (kind) {
    case TopicKind::kCompletion: return completion_topics();
    case TopicKind::kCause: return cause_topics();
    case TopicKind::kErrno: return errno_topics();
    case TopicKind::kReject: return reject_topics();
    case TopicKind::kSidr: return sidr_topics();
    case TopicKind::kConnectEvent: return connect_event_topics();
  }
  return {};
}

// Lower case; every run of characters other than letters and digits becomes one blank.
std::string simplified(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

std::optional<std::uint32_t> number_of(std::string_view text) {
  // Events of librdmacm carry an errno as a negative status.
  if (text.size() > 1 && text.front() == '-') text.remove_prefix(1);
  const int base = text.starts_with("0x") || text.starts_with("0X") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<FoundTopic> find_code(TopicKind kind, std::uint32_t code) {
  std::optional<std::uint32_t> psn;
  if (kind == TopicKind::kCause) {
    psn = objects::psn_of(code).value;
    code = static_cast<std::uint32_t>(objects::cause_of(code));
  }
  const Topic* topic = find_topic(kind, code);
  if (topic == nullptr) return {};
  return {{topic, psn}};
}

std::vector<FoundTopic> find_number(std::uint32_t value) {
  if (value >= kPsnValues) return find_code(TopicKind::kCause, value);
  std::vector<FoundTopic> found;
  for (const TopicKind kind : kKinds) {
    if (kind == TopicKind::kCause) continue;
    for (const FoundTopic& topic : find_code(kind, value)) found.push_back(topic);
  }
  return found;
}

// Errors with a second name.
bool is_other_name(int error, const std::string& words) {
  return (error == EWOULDBLOCK && words == "ewouldblock") || (error == ENOTSUP && words == "enotsup");
}

// The last part of IBV_WC_RETRY_EXC_ERR or RDMA_CM_EVENT_REJECTED is enough.
bool is_name(const Topic& topic, const std::string& words) {
  const std::string name = simplified(topic.name);
  if (words == name || (!topic.phrase.empty() && words == simplified(topic.phrase))) return true;
  for (const std::string_view prefix : {"ibv wc ", "rdma cm event "}) {
    if (name.starts_with(prefix) && words == name.substr(prefix.size())) return true;
  }
  if (topic.kind != TopicKind::kErrno) return false;
  const int error = static_cast<int>(topic.code);
  return words == simplified(std::strerror(error)) || is_other_name(error, words);
}

}  // namespace

const Topic* find_topic(TopicKind kind, std::uint32_t code) {
  const auto topics = topics_of(kind);
  const auto found =
      std::find_if(topics.begin(), topics.end(), [&](const Topic& topic) { return topic.code == code; });
  return found == topics.end() ? nullptr : &*found;
}

std::string_view kind_prefix(TopicKind kind) {
  switch (kind) {
    case TopicKind::kCompletion: return "wc";
    case TopicKind::kCause: return "vendor_err";
    case TopicKind::kErrno: return "errno";
    case TopicKind::kReject: return "reject";
    case TopicKind::kSidr: return "sidr";
    case TopicKind::kConnectEvent: return "event";
  }
  return "";
}

Phrase kind_name(TopicKind kind) {
  switch (kind) {
    case TopicKind::kCompletion: return {"completion status", "完成状态"};
    case TopicKind::kCause: return {"cause in vendor_err", "vendor_err 中的原因"};
    case TopicKind::kErrno: return {"errno of a call", "调用的 errno"};
    case TopicKind::kReject: return {"reject reason of the connection manager", "连接管理器的拒绝原因"};
    case TopicKind::kSidr: return {"SIDR status of the connection manager", "连接管理器的 SIDR 状态"};
    case TopicKind::kConnectEvent: return {"event of librdmacm", "librdmacm 事件"};
  }
  return {};
}

std::vector<FoundTopic> find_topics(std::string_view words) {
  for (const TopicKind kind : kKinds) {
    const std::string_view prefix = kind_prefix(kind);
    if (!words.starts_with(prefix) || words.size() <= prefix.size() ||
        (words[prefix.size()] != ':' && words[prefix.size()] != '='))
      continue;
    const auto value = number_of(words.substr(prefix.size() + 1));
    return value ? find_code(kind, *value) : std::vector<FoundTopic>();
  }
  if (const auto value = number_of(words)) return find_number(*value);
  std::vector<FoundTopic> found;
  const std::string wanted = simplified(words);
  for (const TopicKind kind : kKinds) {
    for (const Topic& topic : topics_of(kind)) {
      if (is_name(topic, wanted)) found.push_back({&topic, std::nullopt});
    }
  }
  return found;
}

std::vector<const Topic*> all_topics() {
  std::vector<const Topic*> all;
  for (const TopicKind kind : kKinds) {
    for (const Topic& topic : topics_of(kind)) all.push_back(&topic);
  }
  return all;
}

Language choose_language(std::string_view option) {
  std::string_view wanted = option;
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    if (!wanted.empty()) break;
    if (const char* value = std::getenv(name); value != nullptr) wanted = value;
  }
  return wanted.starts_with("zh") ? Language::kChinese : Language::kEnglish;
}

}  // namespace rrdma::tools
