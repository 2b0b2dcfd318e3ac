#include "sim/coverage.h"

#include "objects/completion_queue.h"

namespace rrdma::sim {

using objects::SendOpcode;
using objects::Status;

std::string_view describe(Provocation provocation) {
  switch (provocation) {
    case Provocation::kNone: return "none";
    case Provocation::kUnknownRemoteKey: return "unknown remote key";
    case Provocation::kOtherDomainKey: return "key of another protection domain";
    case Provocation::kBeyondRegion: return "beyond the region";
    case Provocation::kNoRights: return "right not granted";
    case Provocation::kMisalignedAtomic: return "misaligned atomic";
    case Provocation::kUnknownLocalKey: return "unknown local key";
    case Provocation::kBadReadSink: return "READ into memory with an unknown key";
    case Provocation::kStaleWindow: return "key of an unbound window";
    case Provocation::kBadInvalidate: return "invalidate of a region";
    case Provocation::kBadBind: return "bind beyond the region";
    case Provocation::kReadNotAllowed: return "READ where none is allowed";
    case Provocation::kSmallReceive: return "receive buffer too small";
    case Provocation::kBadReceiveKey: return "receive buffer with an unknown key";
    case Provocation::kModifyToError: return "modify to error";
    case Provocation::kDestroy: return "destroy";
    case Provocation::kReset: return "reset";
  }
  return "unknown";
}

void Coverage::add(const Coverage& other) {
  const auto sum = [](auto& mine, const auto& theirs) {
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += theirs[i];
  };
  sum(fates, other.fates);
  sum(send_statuses, other.send_statuses);
  sum(receive_statuses, other.receive_statuses);
  sum(operations, other.operations);
  sum(provocations, other.provocations);
  sum(qp_events, other.qp_events);
  for (const auto& name : transport::kCounterNames) engine.*name.member += other.engine.*name.member;
  completion_events += other.completion_events;
  overflow_events += other.overflow_events;
  limit_events += other.limit_events;
  pauses += other.pauses;
  rebuilt += other.rebuilt;
  psn_wraps += other.psn_wraps;
}

std::vector<std::string> Coverage::missing() const {
  std::vector<std::string> names;
  const auto need = [&names](std::uint64_t count, std::string name) {
    if (count == 0) names.push_back(std::move(name));
  };
  using link::Fate;
  for (std::size_t i = 0; i < link::kFateCount; ++i) {
    const auto fate = static_cast<Fate>(i);
    if (fate == Fate::kFiltered || fate == Fate::kNoRoute || fate == Fate::kTransportRefused)
      continue;  // produced only by tests
    need(fates[i], "fate: " + std::string(link::describe(fate)));
  }
  for (const auto& name : transport::kCounterNames) {
    // A conforming peer never names another source or transport, and never answers a PSN that was not sent.
    // The simulated network has no direct paths.
    static constexpr std::string_view kHostileOnly[] = {
        "dropped_wrong_type", "dropped_wrong_party",   "dropped_wrong_source", "dropped_wrong_destination",
        "dropped_wrong_port", "dropped_pkey",          "dropped_bogus_ack",    "direct_operations",
        "direct_octets",      "direct_turn_octets_max"};
    bool hostile = false;
    for (const auto only : kHostileOnly) hostile |= name.name == only;
    if (!hostile) need(engine.*name.member, "counter: " + std::string(name.name));
  }
  for (const Status status :
       {Status::kSuccess, Status::kLocalQpOperationError, Status::kLocalProtectionError, Status::kFlushed,
        Status::kWindowBindError, Status::kRemoteInvalidRequest, Status::kRemoteAccessError,
        Status::kRemoteOperationError, Status::kRetryExceeded, Status::kRnrRetryExceeded}) {
    need(send_statuses[static_cast<std::size_t>(status)],
         "send status: " + std::string(objects::describe(status)));
  }
  for (const Status status : {Status::kSuccess, Status::kLocalLengthError, Status::kLocalProtectionError,
                              Status::kRemoteInvalidRequest, Status::kFlushed}) {
    need(receive_statuses[static_cast<std::size_t>(status)],
         "receive status: " + std::string(objects::describe(status)));
  }
  for (const SendOpcode opcode :
       {SendOpcode::kWrite, SendOpcode::kWriteImmediate, SendOpcode::kSend, SendOpcode::kSendImmediate,
        SendOpcode::kRead, SendOpcode::kCompareSwap, SendOpcode::kFetchAdd, SendOpcode::kLocalInvalidate,
        SendOpcode::kBindWindow, SendOpcode::kSendInvalidate, SendOpcode::kFlush, SendOpcode::kAtomicWrite}) {
    need(operations[static_cast<std::size_t>(opcode)],
         "operation " + std::to_string(static_cast<int>(opcode)));
  }
  for (std::size_t i = 1; i < kProvocationCount; ++i) {
    need(provocations[i], "provocation: " + std::string(describe(static_cast<Provocation>(i))));
  }
  for (std::size_t i = 0; i < kQpEventCount; ++i) need(qp_events[i], "QP event " + std::to_string(i));
  need(completion_events, "completion event");
  need(overflow_events, "completion queue overflow");
  need(limit_events, "shared receive queue limit");
  need(pauses, "paused host");
  need(rebuilt, "rebuilt connection");
  need(psn_wraps, "PSN wrap");
  return names;
}

}  // namespace rrdma::sim
