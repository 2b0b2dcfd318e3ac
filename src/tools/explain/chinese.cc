#include "tools/explain/chinese.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/format.h"
#include "nic/lane/failed_memory.h"
#include "objects/cause.h"
#include "objects/completion_queue.h"
#include "tools/explain/catalogue.h"
#include "wire/address_text.h"
#include "wire/headers.h"
#include "wire/rnr_timer.h"

namespace rrdma::tools {
namespace chinese {
namespace {

using host::ExplainFacts;
using objects::Cause;
using objects::CompletionOpcode;
using Values = std::vector<std::string_view>;

// The values of a sentence that fits the template. A value ends where the next piece of the template begins.
std::optional<Values> match(std::string_view pattern, std::string_view text) {
  Values values;
  for (;;) {
    const std::size_t at = pattern.find("{}");
    const std::string_view piece = pattern.substr(0, at);
    if (!text.starts_with(piece)) return std::nullopt;
    text.remove_prefix(piece.size());
    if (at == std::string_view::npos) return text.empty() ? std::optional(values) : std::nullopt;
    pattern.remove_prefix(at + 2);
    const std::string_view next = pattern.substr(0, pattern.find("{}"));
    const bool last = next.size() == pattern.size();
    if (last && text.size() < next.size()) return std::nullopt;
    const std::size_t end = last ? text.size() - next.size() : text.find(next);
    if (end == std::string_view::npos) return std::nullopt;
    values.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string filled(std::string_view pattern, const Values& values) {
  std::string text;
  std::size_t next = 0;
  while (!pattern.empty()) {
    const std::size_t at = pattern.find('{');
    text += pattern.substr(0, at);
    if (at == std::string_view::npos) break;
    const std::size_t end = pattern.find('}', at);
    const std::string_view number = pattern.substr(at + 1, end - at - 1);
    const std::size_t which = number.empty() ? next++ : static_cast<std::size_t>(number[0] - '0');
    if (which < values.size()) text += in_chinese(values[which]);
    pattern.remove_prefix(end + 1);
  }
  return text;
}

std::size_t literal_size(std::string_view pattern) {
  std::size_t size = pattern.size();
  for (std::size_t at = pattern.find("{}"); at != std::string_view::npos; at = pattern.find("{}", at + 2))
    size -= 2;
  return size;
}

// ---- failures ----

std::string_view operation(std::uint8_t opcode) {
  switch (static_cast<CompletionOpcode>(opcode)) {
    case CompletionOpcode::kSend: return "SEND";
    case CompletionOpcode::kWrite: return "RDMA WRITE";
    case CompletionOpcode::kRead: return "RDMA READ";
    case CompletionOpcode::kCompareSwap: return "比较并交换";
    case CompletionOpcode::kFetchAdd: return "取并加";
    case CompletionOpcode::kBindWindow: return "内存窗口绑定";
    case CompletionOpcode::kLocalInvalidate: return "本地失效";
    case CompletionOpcode::kFlush: return "FLUSH";
    case CompletionOpcode::kAtomicWrite: return "原子 WRITE";
    default: return "接收";
  }
}

std::string peer(const ExplainFacts& facts) {
  return facts.peer.is_zero() ? formatted("QP {:#08x}", facts.peer_qpn)
                              : formatted("{} 的 QP {:#08x}", wire::to_text(facts.peer), facts.peer_qpn);
}

std::string request(const ExplainFacts& facts) {
  const auto opcode = static_cast<CompletionOpcode>(facts.opcode);
  if (opcode == CompletionOpcode::kBindWindow || opcode == CompletionOpcode::kLocalInvalidate)
    return formatted("QP {:#08x} 上的{}（wr_id {}）", facts.qpn, operation(facts.opcode), facts.wr_id);
  switch (facts.kind) {
    case ExplainFacts::kReceive:
      return formatted("QP {:#08x} 上 {} 字节的接收请求（wr_id {}，消息来自 {}）", facts.qpn, facts.length,
                       facts.wr_id, peer(facts));
    case ExplainFacts::kRefused:
      return formatted("{} 发往 QP {:#08x} 的 {} 字节 {}", peer(facts), facts.qpn, facts.length,
                       operation(facts.opcode));
    default:
      return formatted("QP {:#08x} 发往 {} 的 {} 字节 {}（wr_id {}）", facts.qpn, peer(facts), facts.length,
                       operation(facts.opcode), facts.wr_id);
  }
}

// A blank stands between Latin and Chinese letters.
std::string_view gap_behind(const ExplainFacts& facts) {
  return operation(facts.opcode).back() <= 'Z' && operation(facts.opcode).back() >= 'A' ? " " : "";
}

// A topic's meaning without its full stop, to go on with.
std::string clause(const Topic* topic) {
  std::string text(topic == nullptr ? "原因未知" : topic->meaning.chinese);
  constexpr std::string_view kStop = "。";
  if (text.ends_with(kStop)) text.resize(text.size() - kStop.size());
  return text;
}

std::string limits(const ExplainFacts& facts) {
  switch (static_cast<Cause>(facts.cause)) {
    case Cause::kPeerNotReady: return formatted("（rnr_retry 为 {}）", facts.rnr_retry);
    case Cause::kPeerKeepsNaking: return formatted("（retry_cnt 为 {}）", facts.retry_count);
    case Cause::kPeerSilent:
      return formatted("（timeout 为 {}，即 {:.3g} 毫秒；retry_cnt 为 {}）", facts.timeout,
                       facts.timeout_ms(), facts.retry_count);
    default: return "";
  }
}

std::string fate(const ExplainFacts& facts) {
  const auto cause = static_cast<Cause>(facts.cause);
  if (facts.peer_fate == ExplainFacts::kUnknownFate ||
      (cause != Cause::kPeerSilent && cause != Cause::kPeerGone))
    return "";
  const std::string who = facts.peer_pid == 0
                              ? std::string("本机的一个进程")
                              : formatted("进程 {}（{}）", facts.peer_pid, facts.peer_program);
  return formatted(
      "；对端是{}，{}", who,
      facts.peer_fate == ExplainFacts::kExited ? "已退出" : "已被杀死或崩溃：它没有执行退出处理");
}

std::string report(const ExplainFacts& facts) {
  const std::string from = wire::to_text(facts.reporter);
  switch (facts.report) {
    case ExplainFacts::kHopsExceeded:
      return formatted("；{} 丢弃了我们的报文，因为其 TTL 已耗尽（ICMP 超时）", from);
    case ExplainFacts::kPortClosed:
      return formatted("；{} 回答其 UDP 端口 4791 无人接收（ICMP 端口不可达）", from);
    case ExplainFacts::kUnreachable: return formatted("；{} 回答对端不可达（ICMP 目的不可达）", from);
    case ExplainFacts::kForbidden: return formatted("；{} 的防火墙拒绝我们的报文（ICMP 管理性禁止）", from);
    case ExplainFacts::kTooLong:
      return formatted("；{} 丢弃了过长的报文：其下一段链路的 MTU 为 {} 字节（ICMP 需要分片）", from,
                       facts.reported_mtu);
    default: return "";
  }
}

std::string region(const ExplainFacts& facts) {
  return formatted("MR {:#010x}（{} 字节，起始于 {:#x}）", facts.region_key, facts.region_length,
                   facts.region_address);
}

std::string memory(const ExplainFacts& facts) {
  if (facts.region == ExplainFacts::kNoRegion) return "";
  const auto cause = static_cast<Cause>(facts.cause);
  const bool local = facts.lkey != 0 || facts.local_length != 0;
  const std::uint64_t address = local ? facts.local_address : facts.remote_address;
  const std::uint64_t length = local ? facts.local_length : facts.length;
  const auto from = static_cast<std::int64_t>(address - facts.region_address);
  const auto to = from + static_cast<std::int64_t>(length);
  switch (cause) {
    case Cause::kLocalOutOfBounds:
    case Cause::kRemoteOutOfBounds: {
      const std::string range = formatted("；字节 [{:+}, {:+}) ", from, to);
      return from < 0 ? range + formatted("从 {}之前 {} 字节处开始", region(facts), -from)
                      : range + formatted("越过 {}的末尾，超出 {} 字节", region(facts),
                                          static_cast<std::uint64_t>(to) - facts.region_length);
    }
    case Cause::kLocalKeyUnknown:
    case Cause::kRemoteKeyUnknown:
      if (from >= 0 && static_cast<std::uint64_t>(from) < facts.region_length) {
        return formatted("；该地址位于 {}，其 {} 是 {:#010x}，而不是 {:#010x}", region(facts),
                         local ? "lkey" : "rkey", facts.region_key, local ? facts.lkey : facts.rkey);
      }
      return formatted("；没有 MR 包含地址 {:#x}，最近的是 {}", address, region(facts));
    case Cause::kLocalNotWritable:
      return formatted("；{}的权限为 {}", region(facts), nic::rights_text(facts.region_access));
    case Cause::kRemoteAccessNotGranted: {
      const std::uint32_t needed = nic::right_needed(facts);
      return formatted("；{}的权限为 {}{}", region(facts), nic::rights_text(facts.region_access),
                       needed == 0 ? "" : "，而请求需要 " + nic::rights_text(needed));
    }
    case Cause::kLocalKeyOtherDomain:
    case Cause::kRemoteKeyOtherDomain: return "；它对应 " + region(facts);
    default: return "";
  }
}

std::string answer(const ExplainFacts& facts) {
  if (facts.syndrome == 0) return "";
  const wire::Aeth aeth{.syndrome = facts.syndrome};
  if (aeth.is_rnr_nak()) {
    return formatted("；对 PSN {} 的应答是 RNR NAK，定时器 {}（{} 毫秒）", facts.psn, aeth.code(),
                     static_cast<double>(wire::rnr_delay_ns(aeth.code())) / 1e6);
  }
  return formatted("；{}对 PSN {} 的应答是 NAK 代码 {}", facts.kind == ExplainFacts::kRefused ? "本端" : "",
                   facts.psn, aeth.code());
}

std::string milliseconds(std::uint32_t us) {
  return us < 10'000 ? formatted("{:.2f}", us / 1e3) : formatted("{:.0f}", us / 1e3);
}

std::string attempts(const ExplainFacts& facts) {
  if (facts.attempts == 0) return "";
  const std::uint32_t kept = std::min<std::uint32_t>(facts.attempts, ExplainFacts::kAttempts);
  constexpr std::string_view kWhy[] = {"超时", " 序号 NAK ", " RNR NAK "};
  std::string times;
  for (std::uint32_t i = 0; i < kept; ++i) times += (i == 0 ? "" : "、") + milliseconds(facts.attempt_us[i]);
  const std::uint8_t why = facts.attempt_why[kept - 1];
  return formatted("；PSN {} 因{}重传了 {} 次，分别在第 {}{} 毫秒，于第 {} 毫秒放弃", facts.psn,
                   why < std::size(kWhy) ? kWhy[why] : "", facts.attempts, facts.attempts > kept ? "…、" : "",
                   times, milliseconds(facts.failed_us));
}

std::string place(const ExplainFacts& facts) {
  switch (static_cast<CompletionOpcode>(facts.opcode)) {
    case CompletionOpcode::kWrite:
    case CompletionOpcode::kRead:
    case CompletionOpcode::kCompareSwap:
    case CompletionOpcode::kFetchAdd:
    case CompletionOpcode::kFlush:
    case CompletionOpcode::kAtomicWrite: break;
    default: return "";
  }
  if (facts.kind == ExplainFacts::kReceive) return "";
  return formatted("；远程地址 {:#x}，rkey {:#010x}", facts.remote_address, facts.rkey);
}

// The facts lack the port, which the sentence has: "10.9.0.1 port 7174 rejected …".
std::string rejection(const ExplainFacts& facts, std::string_view sentence) {
  const auto parts = match("{} port {} rejected{}", sentence);
  return formatted("{}{} 拒绝了连接，原因 {}：{}。", wire::to_text(facts.peer),
                   parts ? formatted(" 端口 {}", (*parts)[1]) : "", facts.reason,
                   clause(find_topic(TopicKind::kReject, facts.reason)));
}

}  // namespace
}  // namespace chinese

std::string in_chinese(std::string_view sentence) {
  using namespace chinese;
  const SentencePair* best = nullptr;
  std::optional<Values> values;
  for (const SentencePair& pair : chinese_sentences()) {
    if (best != nullptr && literal_size(pair.english) <= literal_size(best->english)) continue;
    if (auto matched = match(pair.english, sentence)) {
      best = &pair;
      values = std::move(matched);
    }
  }
  return best == nullptr ? std::string(sentence) : filled(best->chinese, *values);
}

std::string failure_in_chinese(const host::ExplainFacts& facts) {
  using namespace chinese;
  const auto cause = static_cast<Cause>(facts.cause);
  const std::string verdict = facts.kind == ExplainFacts::kRefused
                                  ? formatted("{}被拒绝，对端得到状态 {}", gap_behind(facts), facts.status)
                                  : formatted("失败，状态 {}（{}）", facts.status,
                                              objects::describe(static_cast<objects::Status>(facts.status)));
  const bool partly = facts.kind == ExplainFacts::kSend && facts.moved != 0 && facts.moved < facts.length;
  const bool injected = facts.lost != 0 && (cause == Cause::kPeerSilent || cause == Cause::kPeerKeepsNaking);
  return formatted("{}{}：{}{}{}{}{}{}{}{}{}。{}", request(facts), verdict,
                   clause(find_topic(TopicKind::kCause, facts.cause)), limits(facts), fate(facts),
                   report(facts), memory(facts), answer(facts), attempts(facts), place(facts),
                   partly ? formatted("；其中 {} 字节已到达", facts.moved) : "",
                   injected ? formatted("注入的故障丢弃了 {} 个报文：很可能就是原因。", facts.lost) : "");
}

std::string sentence_in_chinese(const host::Explained& said) {
  if (said.facts.kind == host::ExplainFacts::kNone) return in_chinese(said.sentence);
  if (said.facts.kind == host::ExplainFacts::kRejected) return chinese::rejection(said.facts, said.sentence);
  return failure_in_chinese(said.facts);
}

}  // namespace rrdma::tools
