// FailureLog: formats requests that fail in the engine as sentences for the explain channel (host/explain.h):
// what failed, between which QPs, which packets decided it, and what to do. It reports the first failure of
// each QP since it was connected, and counts the requests flushed behind it.
//
// Threads: all calls under the lane's lock.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "control/messages.h"
#include "host/explain.h"
#include "nic/links/link_evidence.h"
#include "objects/memory.h"
#include "transport/engine.h"

namespace rrdma::nic {

class FailureLog {
 public:
  // The first failure of a QP, for its capture.
  struct Note {
    std::string text;   // "explain: QP 0x000011: ibv_post_send: SEND of …"
    std::string facts;  // host::digits_of
  };
  std::optional<Note> handle_failed(const transport::QueuePair& qp, const transport::FailedRequest& failed,
                                    const objects::MemoryTable& memory, const LinkEvidence& evidence);
  void handle_flushed(const transport::QueuePair& qp, std::uint32_t sends, std::uint32_t receives);
  // The process that this QP is connected to has ended.
  void handle_peer_gone(const transport::QueuePair& qp, const control::PeerGone& gone);
  // A QP that is reconnected or destroyed has no history.
  void handle_qp_changed(const transport::QueuePair& qp, bool destroyed);

 private:
  struct FirstFailure {
    host::ExplainHandle handle = 0;
    host::ExplainFacts facts;
  };
  std::unordered_map<std::uint32_t, FirstFailure> first_failures_;   // by QPN
  std::unordered_map<std::uint32_t, control::PeerGone> departures_;  // by QPN
};

[[nodiscard]] host::ExplainFacts facts_of(const transport::QueuePair& qp,
                                          const transport::FailedRequest& failed);
// "RDMA WRITE of … from QP 0x030001 to QP 0x040001 at 10.0.0.2 failed: …"
[[nodiscard]] std::string failure_sentence(const host::ExplainFacts& facts);

}  // namespace rrdma::nic
