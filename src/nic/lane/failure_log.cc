#include "nic/lane/failure_log.h"

#include <algorithm>

#include "base/format.h"
#include "host/explain_end.h"
#include "host/explain_log.h"
#include "nic/lane/failed_memory.h"
#include "nic/links/link_switch.h"
#include "objects/cause.h"
#include "wire/address_text.h"
#include "wire/rnr_timer.h"

namespace rrdma::nic {

using host::ExplainFacts;
using host::kPeerCall;
using objects::CompletionOpcode;
using transport::Attempt;
using transport::FailedRequest;

namespace {

std::string_view operation_name(CompletionOpcode opcode) {
  switch (opcode) {
    case CompletionOpcode::kSend: return "SEND";
    case CompletionOpcode::kWrite: return "RDMA WRITE";
    case CompletionOpcode::kRead: return "RDMA READ";
    case CompletionOpcode::kCompareSwap: return "compare and swap";
    case CompletionOpcode::kFetchAdd: return "fetch and add";
    case CompletionOpcode::kBindWindow: return "memory window bind";
    case CompletionOpcode::kLocalInvalidate: return "local invalidate";
    case CompletionOpcode::kFlush: return "FLUSH";
    case CompletionOpcode::kAtomicWrite: return "atomic WRITE";
    case CompletionOpcode::kReceive:
    case CompletionOpcode::kReceiveWriteImmediate: return "receive";
  }
  return "request";
}

bool is_one_sided(const ExplainFacts& facts) {
  switch (static_cast<CompletionOpcode>(facts.opcode)) {
    case CompletionOpcode::kWrite:
    case CompletionOpcode::kRead:
    case CompletionOpcode::kCompareSwap:
    case CompletionOpcode::kFetchAdd:
    case CompletionOpcode::kFlush:
    case CompletionOpcode::kAtomicWrite: return facts.kind != ExplainFacts::kReceive;
    default: return false;
  }
}

bool is_local_operation(const ExplainFacts& facts) {
  const auto opcode = static_cast<CompletionOpcode>(facts.opcode);
  return opcode == CompletionOpcode::kBindWindow || opcode == CompletionOpcode::kLocalInvalidate;
}

std::string peer_text(const ExplainFacts& facts) {
  const std::string qp = formatted("QP {:#08x}", facts.peer_qpn);
  return facts.peer.is_zero() ? qp : formatted("{} at {}", qp, wire::to_text(facts.peer));
}

// "RDMA WRITE of … (wr_id 7) from QP … to QP … at 10.0.0.2"
std::string request_text(const ExplainFacts& facts) {
  const std::string_view operation = operation_name(static_cast<CompletionOpcode>(facts.opcode));
  if (is_local_operation(facts))
    return formatted("{} (wr_id {}) on QP {:#08x}", operation, facts.wr_id, facts.qpn);
  switch (facts.kind) {
    case ExplainFacts::kReceive:
      return formatted("receive request of {} bytes (wr_id {}) on QP {:#08x} for a message of {}",
                       facts.length, facts.wr_id, facts.qpn, peer_text(facts));
    case ExplainFacts::kRefused:
      return formatted("{} of {} bytes that {} sent to QP {:#08x}", operation, facts.length, peer_text(facts),
                       facts.qpn);
    default:
      return formatted("{} of {} bytes (wr_id {}) from QP {:#08x} to {}", operation, facts.length,
                       facts.wr_id, facts.qpn, peer_text(facts));
  }
}

std::string milliseconds_text(std::uint32_t us) {
  return us < 10'000 ? formatted("{:.2f}", us / 1e3) : formatted("{:.0f}", us / 1e3);
}

std::string_view why_text(std::uint8_t why) {
  switch (static_cast<Attempt::Why>(why)) {
    case Attempt::Why::kSilence: return "after a timeout";
    case Attempt::Why::kSequenceNak: return "after a sequence NAK";
    case Attempt::Why::kNotReady: return "after an RNR NAK";
  }
  return "";
}

// "PSN 77 was retransmitted 3 times (after a timeout), at 67, 134, 201 ms, and given up at 268 ms"
std::string attempts_text(const ExplainFacts& facts) {
  if (facts.attempts == 0) return "";
  const std::uint32_t kept = std::min<std::uint32_t>(facts.attempts, ExplainFacts::kAttempts);
  std::string times;
  for (std::uint32_t i = 0; i < kept; ++i)
    times += (i == 0 ? "" : ", ") + milliseconds_text(facts.attempt_us[i]);
  return formatted("; PSN {} was retransmitted {} {} ({}), at {}{} ms, and given up at {} ms", facts.psn,
                   facts.attempts, facts.attempts == 1 ? "time" : "times",
                   why_text(facts.attempt_why[kept - 1]), facts.attempts > kept ? "…, " : "", times,
                   milliseconds_text(facts.failed_us));
}

// The deciding AETH: "the answer to PSN 77 was NAK code 2 (remote access error)".
std::string answer_text(const ExplainFacts& facts) {
  if (facts.syndrome == 0) return "";
  const wire::Aeth aeth{.syndrome = facts.syndrome};
  if (aeth.is_rnr_nak()) {
    return formatted("; the answer to PSN {} was an RNR NAK with timer {} ({} ms)", facts.psn, aeth.code(),
                     static_cast<double>(wire::rnr_delay_ns(aeth.code())) / 1e6);
  }
  return formatted("; {} PSN {} was NAK code {}",
                   facts.kind == ExplainFacts::kRefused ? "our answer to" : "the answer to", facts.psn,
                   aeth.code());
}

std::string place_text(const ExplainFacts& facts) {
  if (!is_one_sided(facts)) return "";
  return formatted("; remote address {:#x}, rkey {:#010x}", facts.remote_address, facts.rkey);
}

std::string progress_text(const ExplainFacts& facts) {
  if (facts.kind != ExplainFacts::kSend || facts.moved == 0 || facts.moved >= facts.length) return "";
  return formatted("; {} bytes of it had arrived", facts.moved);
}

// Dropped packets explain silence and repeated NAKs. Name them before anything else to check.
std::string injected_text(objects::Cause cause, std::uint64_t lost) {
  if (lost == 0 || (cause != objects::Cause::kPeerSilent && cause != objects::Cause::kPeerKeepsNaking))
    return "";
  return formatted("Injected faults dropped {} {}: the likely reason. ", lost,
                   lost == 1 ? "packet" : "packets");
}

// The values behind "rnr_retry times in a row".
std::string limits_text(const ExplainFacts& facts) {
  switch (static_cast<objects::Cause>(facts.cause)) {
    case objects::Cause::kPeerNotReady: return formatted(" (rnr_retry is {})", facts.rnr_retry);
    case objects::Cause::kPeerKeepsNaking: return formatted(" (retry_cnt is {})", facts.retry_count);
    case objects::Cause::kPeerSilent:
      return formatted(" (timeout is {}: {:.3g} ms; retry_cnt is {})", facts.timeout, facts.timeout_ms(),
                       facts.retry_count);
    default: return "";
  }
}

// "; the peer was process 4711 (server), which was killed or crashed: its exit handlers did not run"
std::string fate_text(const ExplainFacts& facts) {
  const auto cause = static_cast<objects::Cause>(facts.cause);
  const bool concerns = cause == objects::Cause::kPeerSilent || cause == objects::Cause::kPeerGone;
  if (facts.peer_fate == ExplainFacts::kUnknownFate || !concerns) return "";
  const std::string who = facts.peer_pid == 0
                              ? std::string("a process of this host")
                              : formatted("process {} ({})", facts.peer_pid, facts.peer_program);
  return formatted("; the peer was {}, which {}", who,
                   facts.peer_fate == ExplainFacts::kExited
                       ? "has exited"
                       : "was killed or crashed: its exit handlers did not run");
}

// "; 10.0.1.1 dropped our packets because their TTL ran out (ICMP time exceeded)"
std::string report_text(const ExplainFacts& facts) {
  const std::string from = wire::to_text(facts.reporter);
  switch (facts.report) {
    case ExplainFacts::kHopsExceeded:
      return formatted("; {} dropped our packets because their TTL ran out (ICMP time exceeded)", from);
    case ExplainFacts::kPortClosed:
      return formatted("; {} answered that nothing receives at its UDP port 4791 (ICMP port unreachable)",
                       from);
    case ExplainFacts::kUnreachable:
      return formatted("; {} answered that the peer cannot be reached (ICMP destination unreachable)", from);
    case ExplainFacts::kForbidden:
      return formatted("; a firewall at {} refuses our packets (ICMP administratively prohibited)", from);
    case ExplainFacts::kTooLong:
      return formatted(
          "; {} dropped packets that are too long: its next link carries {} bytes (ICMP fragmentation "
          "needed)",
          from, facts.reported_mtu);
    default: return "";
  }
}

// If the network or the peer's host has told the reason, nothing else needs to be checked.
std::string_view remedy_text(const ExplainFacts& facts) {
  const auto cause = static_cast<objects::Cause>(facts.cause);
  if (cause != objects::Cause::kPeerSilent) return objects::remedy(cause);
  if (facts.peer_fate != ExplainFacts::kUnknownFate) return objects::remedy(objects::Cause::kPeerGone);
  switch (facts.report) {
    case ExplainFacts::kHopsExceeded:
      return "Look for a routing loop, and at net.ipv4.ip_default_ttl or the hoplimit of the route.";
    case ExplainFacts::kPortClosed: return "Check that a RoCE v2 device is active there.";
    case ExplainFacts::kUnreachable: return "Check the route to the peer.";
    case ExplainFacts::kForbidden: return "Allow UDP port 4791 in both directions.";
    case ExplainFacts::kTooLong: return "Use a smaller path_mtu, or raise the MTU of that link.";
    default: return objects::remedy(cause);
  }
}

std::uint32_t microseconds_between(Instant from, Instant to) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((to - from).ns / 1000, 0, UINT32_MAX));
}

void add_attempts(const transport::QueuePair& qp, Instant now, ExplainFacts& facts) {
  constexpr std::size_t kKept = transport::AttemptHistory::kKept;
  static_assert(kKept == ExplainFacts::kAttempts);
  facts.attempts = qp.req.attempts;
  const std::size_t kept = std::min<std::size_t>(facts.attempts, kKept);
  for (std::size_t i = 0; i < kept; ++i) {
    const Attempt& attempt = qp.attempts.last[(facts.attempts - kept + i) % kKept];
    facts.attempt_us[i] = microseconds_between(qp.attempts.since, attempt.at);
    facts.attempt_why[i] = static_cast<std::uint8_t>(attempt.why);
  }
  if (kept != 0) facts.failed_us = microseconds_between(qp.attempts.since, now);
}

bool has_failed(transport::QpState state) {
  return state == transport::QpState::kError || state == transport::QpState::kSendError;
}

void add_fate(const control::PeerGone& gone, ExplainFacts& facts) {
  facts.peer_fate =
      gone.fate == control::PeerGone::Fate::kExited ? ExplainFacts::kExited : ExplainFacts::kKilled;
  facts.peer_pid = gone.pid;
  gone.program.copy(facts.peer_program, sizeof facts.peer_program - 1);
}

void add_report(const link::NetworkReport& report, ExplainFacts& facts) {
  using Kind = link::NetworkReport::Kind;
  static_assert(static_cast<int>(Kind::kHopsExceeded) == ExplainFacts::kHopsExceeded &&
                static_cast<int>(Kind::kTooLong) == ExplainFacts::kTooLong);
  facts.report = static_cast<std::uint8_t>(report.kind);
  facts.reporter = report.reporter;
  facts.reported_mtu = report.mtu;
}

std::string_view call_of(const FailedRequest& failed) {
  switch (failed.side) {
    case FailedRequest::Side::kSend: return "ibv_post_send";
    case FailedRequest::Side::kReceive: return "ibv_post_recv";
    case FailedRequest::Side::kRefused: break;
  }
  return host::kPeersRequest;
}

}  // namespace

ExplainFacts facts_of(const transport::QueuePair& qp, const FailedRequest& failed) {
  ExplainFacts facts;
  facts.kind = failed.side == FailedRequest::Side::kSend      ? ExplainFacts::kSend
               : failed.side == FailedRequest::Side::kReceive ? ExplainFacts::kReceive
                                                              : ExplainFacts::kRefused;
  facts.status = static_cast<std::uint8_t>(failed.status);
  facts.cause = static_cast<std::uint8_t>(failed.cause);
  facts.opcode = static_cast<std::uint8_t>(failed.opcode);
  facts.qp_type = static_cast<std::uint8_t>(qp.type);
  facts.shm = qp.path.link == kShmLink ? 1 : 0;
  facts.syndrome = failed.syndrome;
  facts.timeout = qp.attributes.timeout;
  facts.retry_count = qp.attributes.retry_count;
  facts.rnr_retry = qp.attributes.rnr_retry;
  facts.qpn = qp.qpn.value;
  facts.peer_qpn = failed.peer_qpn.value;
  facts.psn = failed.psn.value;
  facts.rkey = failed.rkey.value;
  facts.length = failed.length;
  facts.moved = failed.moved;
  facts.wr_id = failed.wr_id;
  facts.remote_address = failed.remote_address;
  facts.peer = failed.peer;
  if (failed.side == FailedRequest::Side::kSend) add_attempts(qp, failed.at, facts);
  return facts;
}

std::string failure_sentence(const ExplainFacts& facts) {
  const auto cause = static_cast<objects::Cause>(facts.cause);
  const std::string verdict = facts.kind == ExplainFacts::kRefused
                                  ? formatted("was refused, the peer gets status {}", facts.status)
                                  : formatted("failed with status {} ({})", facts.status,
                                              objects::describe(static_cast<objects::Status>(facts.status)));
  return formatted("{} {}: {}{}{}{}{}{}{}{}{}. {}{}", request_text(facts), verdict, objects::describe(cause),
                   limits_text(facts), fate_text(facts), report_text(facts), memory_text(facts),
                   answer_text(facts), attempts_text(facts), place_text(facts), progress_text(facts),
                   injected_text(cause, facts.lost), remedy_text(facts));
}

std::optional<FailureLog::Note> FailureLog::handle_failed(const transport::QueuePair& qp,
                                                          const FailedRequest& failed,
                                                          const objects::MemoryTable& memory,
                                                          const LinkEvidence& evidence) {
  if (first_failures_.contains(qp.qpn.value)) return std::nullopt;
  ExplainFacts facts = facts_of(qp, failed);
  facts.lost = evidence.lost;
  if (evidence.report) add_report(*evidence.report, facts);
  if (qp.pd != nullptr) add_memory(memory, *qp.pd, failed, facts);
  if (const auto gone = departures_.find(qp.qpn.value); gone != departures_.end())
    add_fate(gone->second, facts);
  const std::string sentence = failure_sentence(facts);
  const host::ExplainHandle handle = host::explain_failure(call_of(failed), sentence, facts, failed.posted);
  first_failures_[qp.qpn.value] = {handle, facts};
  return Note{formatted("explain: QP {:#08x}: {}: {}", qp.qpn.value, call_of(failed), sentence),
              host::digits_of(facts)};
}

void FailureLog::handle_peer_gone(const transport::QueuePair& qp, const control::PeerGone& gone) {
  departures_[qp.qpn.value] = gone;
  // Direct access to a dead process fails before the daemon tells why. After other failures its end proves
  // nothing.
  const auto failure = first_failures_.find(qp.qpn.value);
  if (failure != first_failures_.end() &&
      failure->second.facts.cause == static_cast<std::uint8_t>(objects::Cause::kPeerGone)) {
    ExplainFacts& facts = failure->second.facts;
    add_fate(gone, facts);
    host::explain_log().amend(failure->second.handle, failure_sentence(facts), facts);
  }
  if (gone.fate != control::PeerGone::Fate::kKilled) return;
  // Also if no request fails of it: a program that only receives would wait in vain.
  const std::string who = gone.pid == 0 ? std::string("a process of this host")
                                        : formatted("process {} ({})", gone.pid, gone.program);
  host::explain(
      host::Severity::kInfo, kPeerCall,
      formatted("{}, which this program was connected to, was killed or crashed: its exit handlers did "
                "not run.",
                who));
}

void FailureLog::handle_flushed(const transport::QueuePair& qp, std::uint32_t sends, std::uint32_t receives) {
  const auto found = first_failures_.find(qp.qpn.value);
  if (found != first_failures_.end()) return host::explain_flushed(found->second.handle, sends, receives);
  // The program, or the end of the connection, moved the QP to the error state: nothing went wrong.
  host::explain(host::Severity::kDebug, "ibv_poll_cq",
                formatted("requests of QP {:#08x} were flushed because it was moved to the error state.",
                          qp.qpn.value));
}

void FailureLog::handle_qp_changed(const transport::QueuePair& qp, bool destroyed) {
  if (destroyed || !has_failed(qp.state)) first_failures_.erase(qp.qpn.value);
  if (destroyed || qp.state == transport::QpState::kReset) departures_.erase(qp.qpn.value);
}

}  // namespace rrdma::nic
