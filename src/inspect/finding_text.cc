#include "inspect/finding_text.h"

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tools/explain/catalogue.h"

namespace rrdma::tools {
namespace {

using Json = nlohmann::ordered_json;
using Kind = CaptureFinding::Kind;

// enum ibv_wc_status
constexpr std::uint32_t kRemoteInvalidRequest = 9, kRemoteAccess = 10, kRemoteOperation = 11,
                        kRetryExceeded = 12, kRnrRetryExceeded = 13;

Json pair_of(const Phrase& phrase) { return Json::array({phrase.english, phrase.chinese}); }

const Topic* topic_of(const CaptureFinding& finding) {
  switch (finding.kind) {
    case Kind::kRefused: {
      const auto code = static_cast<wire::NakCode>(finding.code);
      return find_topic(TopicKind::kCompletion, code == wire::NakCode::kInvalidRequest ? kRemoteInvalidRequest
                                                : code == wire::NakCode::kRemoteAccessError
                                                    ? kRemoteAccess
                                                    : kRemoteOperation);
    }
    case Kind::kFailed: return find_topic(TopicKind::kCompletion, finding.code);
    case Kind::kSilence: return find_topic(TopicKind::kCompletion, kRetryExceeded);
    case Kind::kNotReady: return find_topic(TopicKind::kCompletion, kRnrRetryExceeded);
    case Kind::kRejected: return find_topic(TopicKind::kReject, finding.code);
    default: return nullptr;
  }
}

struct Title {
  std::string_view kind;
  bool grave;
  std::string english, chinese;
  Phrase meaning;  // if there is no topic
};

Title title_of(const CaptureFinding& finding) {
  const std::uint64_t n = finding.count;
  switch (finding.kind) {
    case Kind::kRefused: return {"refused", true, "The responder refused a request", "响应方拒绝了请求", {}};
    case Kind::kSilence:
      return {"silence",
              true,
              formatted("A request was sent {} times and never answered", finding.code),
              formatted("一个请求发送了 {} 次，始终没有回答", finding.code),
              {}};
    case Kind::kFailed: return {"failed", true, "A request failed", "一个请求失败", {}};
    case Kind::kNotReady:
      return {"rnr",
              false,
              formatted("The receiver was not ready {} times (RNR NAK)", n),
              formatted("接收方 {} 次未就绪（RNR NAK）", n),
              {}};
    case Kind::kRejected:
      return {"rejected", true, "A connection was rejected (REJ)", "连接被拒绝（REJ）", {}};
    case Kind::kSequence:
      return {"sequence",
              false,
              formatted("{} times the receiver saw a gap (NAK, PSN sequence error)", n),
              formatted("接收方 {} 次发现缺口（NAK，PSN 序号错误）", n),
              {"A packet before it did not arrive. The sender starts again with the PSN that the NAK names; "
               "this is "
               "how RC repairs a loss, and nothing is broken unless it goes on.",
               "它之前的包没有到达。发送方从 NAK 所指的 PSN 重新发送；这是 RC "
               "修复丢包的方式，只要不持续发生就没有问题。"}};
    case Kind::kLost:
      return {
          "lost",
          false,
          formatted("{} packets were lost", n),
          formatted("丢失了 {} 个包", n),
          {"A packet left and did not arrive, or its PSN is missing from the capture: dropped by the "
           "network, by "
           "a full socket buffer, by a fault that was injected, or by the capture itself.",
           "包已发出但没有到达，或其 PSN 不在抓包中：被网络、满的套接字缓冲区、注入的故障或抓包本身丢弃。"}};
    case Kind::kBad: break;
  }
  return {"bad",
          true,
          formatted("{} packets are wrong (ICRC or headers)", n),
          formatted("{} 个包有错误（ICRC 或头部）", n),
          {"Receivers drop such packets without a word. Bytes were changed on the way, or the sender is at "
           "fault.",
           "接收方会直接丢弃这类包。途中字节被改变，或发送方有错误。"}};
}

}  // namespace

Json topic_json(const Topic& topic) {
  Json json = {{"name", topic.name},
               {"meaning", pair_of(topic.meaning)},
               {"causes", Json::array()},
               {"checks", Json::array()}};
  for (const Phrase& phrase : topic.causes)
    if (!phrase.empty()) json["causes"].push_back(pair_of(phrase));
  for (const Phrase& phrase : topic.checks)
    if (!phrase.empty()) json["checks"].push_back(pair_of(phrase));
  return json;
}

Json finding_json(const CaptureFinding& finding) {
  const Title title = title_of(finding);
  const Topic* topic = topic_of(finding);
  Json json = topic != nullptr ? topic_json(*topic)
                               : Json{{"name", ""},
                                      {"meaning", pair_of(title.meaning)},
                                      {"causes", Json::array()},
                                      {"checks", Json::array()}};
  if (finding.dies_of_hops) {
    json["exact"] = Json::array({pair_of(
        {"These packets have TTL 1, so the first router drops them. A path within one subnet would work.",
         "这些包的 TTL 为 1，第一个路由器会丢弃它们。同一子网内的路径不受影响。"})});
  }
  json["kind"] = title.kind;
  json["grave"] = title.grave;
  json["title"] = Json::array({title.english, title.chinese});
  return json;
}

}  // namespace rrdma::tools
