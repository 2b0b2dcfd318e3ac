#include "tools/explain/process_report.h"

#include <array>
#include <cstdlib>
#include <ctime>
#include <span>

#include "base/format.h"
#include "host/explain_end.h"
#include "objects/cause.h"
#include "tools/explain/chinese.h"
#include "tools/explain/source_line.h"
#include "tools/terminal.h"
#include "tools/text_layout.h"

namespace rrdma::tools {
namespace {

using host::ExplainFacts;

std::string time_text(std::int64_t wall_ns) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm local{};
  char text[16];
  const std::size_t length = std::strftime(text, sizeof text, "%H:%M:%S", localtime_r(&seconds, &local));
  return formatted("{}.{:03}", std::string_view(text, length), wall_ns / 1'000'000 % 1000);
}

bool is_silence(const ExplainFacts& facts) {
  return facts.kind == ExplainFacts::kSend &&
         facts.cause == static_cast<std::uint8_t>(objects::Cause::kPeerSilent);
}

const Topic* topic_of(const ExplainFacts& facts) {
  if (facts.kind == ExplainFacts::kRejected) return find_topic(TopicKind::kReject, facts.reason);
  if (is_silence(facts) && facts.peer_fate != ExplainFacts::kUnknownFate)
    return find_topic(TopicKind::kCause, static_cast<std::uint32_t>(objects::Cause::kPeerGone));
  const Topic* cause = find_topic(TopicKind::kCause, facts.cause);
  return cause != nullptr && facts.cause != 0 ? cause : find_topic(TopicKind::kCompletion, facts.status);
}

// Checks for a reason that the network has told.
std::span<const Phrase> checks_of_report(std::uint8_t report) {
  static constexpr Phrase kHops[] = {
      {"`traceroute -n ADDRESS`: does a router appear twice?",
       "运行 `traceroute -n 地址`：是否有路由器重复出现？"},
      {"`ip route get ADDRESS` and `sysctl net.ipv4.ip_default_ttl`: is the hop limit large enough?",
       "运行 `ip route get 地址` 和 `sysctl net.ipv4.ip_default_ttl`：跳数限制是否足够？"}};
  static constexpr Phrase kPort[] = {{"`rrdma stat` on the peer's host: is its process listed?",
                                      "在对端主机上运行 `rrdma stat`：是否列出其进程？"}};
  static constexpr Phrase kRoute[] = {{"`ip route get ADDRESS` here and on the routers: is there a route?",
                                       "在本机和路由器上运行 `ip route get 地址`：是否有路由？"}};
  static constexpr Phrase kFirewall[] = {
      {"The firewall on the way, or the security group of the cloud: UDP port 4791, in both directions.",
       "检查途中的防火墙或云平台的安全组：应双向放行 UDP 端口 4791。"}};
  static constexpr Phrase kMtu[] = {{"`ping -M do -s SIZE ADDRESS`: which size passes?",
                                     "运行 `ping -M do -s 大小 地址`：多大的报文可以通过？"}};
  switch (report) {
    case ExplainFacts::kHopsExceeded: return kHops;
    case ExplainFacts::kPortClosed: return kPort;
    case ExplainFacts::kUnreachable: return kRoute;
    case ExplainFacts::kForbidden: return kFirewall;
    case ExplainFacts::kTooLong: return kMtu;
    default: return {};
  }
}

// "again 41 times, the last at 12:00:00.000; 63 sends and 1 receive were flushed behind it"
std::string consequences(const host::Explained& said, Language language) {
  const bool chinese = language == Language::kChinese;
  std::string text;
  if (said.times > 1) {
    text = chinese
               ? formatted("另有 {} 次相同的情况，最后一次在 {}。", said.times - 1, time_text(said.last_ns))
               : formatted("{} more time{}, the last at {}.", said.times - 1, said.times == 2 ? "" : "s",
                           time_text(said.last_ns));
  }
  const std::uint32_t sends = said.facts.flushed_sends, receives = said.facts.flushed_receives;
  if (sends + receives == 0) return text;
  if (chinese) return text + formatted("其后有 {} 个发送和 {} 个接收请求被 flush。", sends, receives);
  return text + formatted("{}Flushed behind it: {} send {}, {} receive {}.", text.empty() ? "" : " ", sends,
                          sends == 1 ? "request" : "requests", receives,
                          receives == 1 ? "request" : "requests");
}

std::string_view severity_in(host::Severity severity, Language language) {
  if (language == Language::kEnglish) return severity_name(severity);
  return severity == host::Severity::kError ? "错误" : severity == host::Severity::kInfo ? "提示" : "调试";
}

// Names of functions stay; the others are words.
std::string call_in(const std::string& call, Language language) {
  if (language == Language::kChinese && call == host::kPeerCall) return "对端";
  if (language == Language::kChinese && call == host::kPeersRequest) return "对端的请求";
  return printable(call);
}

// The other end of a failed request on this host knows the exact reason.
std::string other_side_text(const host::Explained& said, std::span<const host::ExplainedProcess> all,
                            const Style& style) {
  const OtherSide other = find_other_side(said, all);
  if (other.said == nullptr) return "";
  const std::string text = text_in(*other.said, style.language);
  return wrapped(style.language == Language::kChinese
                     ? formatted("对端（{}，进程 {}）的说明：{}", printable(other.process->program),
                                 other.process->pid, text)
                     : formatted("The other end ({}, process {}) says: {}", printable(other.process->program),
                                 other.process->pid, text),
                 style.columns, "    ", "    ");
}

// Without the advice to ask the other end, which has answered.
std::string without_advice_to_ask(std::string text) {
  const std::size_t at = text.find("`rrdma explain` there names the cause");
  if (at != std::string::npos && at >= 2) text.replace(at - 2, text.find('.', at) - at + 2, "");
  return text;
}

std::string sentence_text(const host::Explained& said, std::span<const host::ExplainedProcess> all,
                          const Style& style) {
  const wire::Palette& palette = style.palette;
  const std::string_view colour = said.severity == host::Severity::kError ? palette.bad : std::string_view();
  const bool chinese = style.language == Language::kChinese;
  const bool answered = find_other_side(said, all).said != nullptr;
  const std::string told = text_in(said, style.language);
  std::string text = wrapped(formatted("{}{}{}", call_in(said.call, style.language), chinese ? "：" : ": ",
                                       answered ? without_advice_to_ask(told) : told),
                             style.columns,
                             formatted("  {} {}{:5}{} ", time_text(said.first_ns), colour,
                                       severity_in(said.severity, style.language), palette.reset),
                             "    ");
  if (const std::string more = consequences(said, style.language); !more.empty())
    text += wrapped(more, style.columns, "    ", "    ");
  if (const std::string line = source_line_text(said, style.language); !line.empty())
    text += wrapped(line, style.columns, "    ", "    ");
  text += other_side_text(said, all, style);
  auto remedies = remedies_of(said.facts, style.language);
  if (answered)  // by the other end
    std::erase_if(remedies, [](std::string_view line) { return line.find("--pid PID") != line.npos; });
  if (remedies.empty()) return text;
  text += formatted("    {}{}{}\n", palette.faint,
                    style.language == Language::kChinese ? "检查要点：" : "What to check:", palette.reset);
  for (const std::string_view line : remedies) text += wrapped(line, style.columns, "      - ", "        ");
  return text;
}

}  // namespace

std::vector<std::string_view> remedies_of(const ExplainFacts& facts, Language language) {
  std::vector<std::string_view> lines;
  const Topic* topic = facts.kind == ExplainFacts::kNone ? nullptr : topic_of(facts);
  if (topic == nullptr) return lines;
  std::span<const Phrase> checks = topic->checks;
  if (is_silence(facts) && facts.report != ExplainFacts::kNoReport &&
      facts.peer_fate == ExplainFacts::kUnknownFate)
    checks = checks_of_report(facts.report);
  for (const Phrase& line : checks) {
    if (!line.empty()) lines.push_back(line.in(language));
  }
  return lines;
}

std::string text_in(const host::Explained& said, Language language) {
  return printable(language == Language::kChinese ? sentence_in_chinese(said) : said.sentence);
}

OtherSide find_other_side(const host::Explained& said, std::span<const host::ExplainedProcess> all) {
  constexpr std::int64_t kTogetherNs = 2'000'000'000;
  const ExplainFacts& mine = said.facts;
  if (mine.kind != ExplainFacts::kSend || mine.syndrome == 0) return {};
  for (const host::ExplainedProcess& process : all) {
    for (const host::Explained& its : process.sentences) {
      const bool answers =
          its.facts.kind == ExplainFacts::kRefused || its.facts.kind == ExplainFacts::kReceive;
      if (!answers || its.facts.qpn != mine.peer_qpn || its.facts.peer_qpn != mine.qpn) continue;
      if (std::abs(its.first_ns - said.first_ns) <= kTogetherNs) return {&process, &its};
    }
  }
  return {};
}

std::string text_of_process(const host::ExplainedProcess& process,
                            std::span<const host::ExplainedProcess> all, const Style& style) {
  const bool chinese = style.language == Language::kChinese;
  const std::string_view state =
      process.running ? (chinese ? "运行中" : "running") : (chinese ? "已结束" : "ended");
  const std::string program = process.program.empty() ? "?" : printable(process.program);
  std::string text = chinese ? formatted("{}{}，进程 {}{}（{}）\n", style.palette.name, program, process.pid,
                                         style.palette.reset, state)
                             : formatted("{}{}, process {}{} ({})\n", style.palette.name, program,
                                         process.pid, style.palette.reset, state);
  for (const host::Explained& said : process.sentences) text += sentence_text(said, all, style);
  return text;
}

std::string_view severity_name(host::Severity severity) {
  return severity == host::Severity::kError ? "error" : severity == host::Severity::kInfo ? "info" : "debug";
}

std::string_view status_name(std::uint8_t status) {
  const Topic* topic = find_topic(TopicKind::kCompletion, status);
  return topic == nullptr ? "?" : topic->name;
}

std::string_view failure_kind_name(std::uint8_t kind) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "send", "receive", "refused", "rejected"};
  return kind < kNames.size() ? kNames[kind] : "?";
}

std::string_view attempt_name(std::uint8_t why) {
  constexpr std::array<std::string_view, 3> kNames = {"silence", "sequence NAK", "RNR NAK"};
  return why < kNames.size() ? kNames[why] : "?";
}

}  // namespace rrdma::tools
