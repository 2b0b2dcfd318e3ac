// FailedRequest: what the engine knows about a work request at the moment it fails, and about a request of
// the peer that it refuses. It goes to EventSink::on_request_failed before the completion can be polled, so
// that whoever sees the status finds the explanation. Values only: the sink makes sentences of them.
#pragma once

#include <array>
#include <cstdint>

#include "base/instant.h"
#include "objects/completion_queue.h"
#include "objects/work_queue.h"
#include "wire/gid.h"
#include "wire/numbers.h"
#include "wire/transport_packet.h"

namespace rrdma::transport {

struct QueuePair;

// One more try of the oldest packet that is not acknowledged.
struct Attempt {
  enum class Why : std::uint8_t { kSilence, kSequenceNak, kNotReady };
  Instant at;
  Why why = Why::kSilence;
};

// Of the packet at RequesterState::una; forgotten when it is acknowledged. `req.attempts` counts them all,
// the last ones are kept here.
struct AttemptHistory {
  static constexpr std::size_t kKept = 8;
  Instant since;              // when the first try was waited for
  std::uint8_t syndrome = 0;  // of the last NAK; 0: none came
  std::array<Attempt, kKept> last{};
};

struct FailedRequest {
  enum class Side : std::uint8_t {
    kSend,     // a send request of this side
    kReceive,  // a receive request of this side
    kRefused,  // a request of the peer, which has no completion here
  };
  Side side = Side::kSend;
  objects::Status status =
      objects::Status::kSuccess;  // of the completion; of a refused one: as the peer sees it
  objects::Cause cause = objects::Cause::kNone;
  objects::CompletionOpcode opcode = objects::CompletionOpcode::kSend;
  std::uint64_t wr_id = 0;
  std::uint32_t length = 0;  // of the request: what was to be moved, or the room of a receive request
  std::uint32_t moved = 0;   // acknowledged, received, or (refused for its length) arrived
  wire::RKey rkey;           // with remote_address: one-sided operations
  std::uint64_t remote_address = 0;
  wire::Psn psn;
  wire::Gid peer;
  wire::Qpn peer_qpn;
  std::uint8_t syndrome = 0;  // AETH of the answer that decided, received or (refused) sent; 0: none
  Instant at;
};

[[nodiscard]] FailedRequest failed_send(const QueuePair& qp, const objects::SendEntry& entry,
                                        objects::Status status, objects::Cause cause, Instant now);
[[nodiscard]] FailedRequest failed_receive(const QueuePair& qp, const objects::Completion& completion,
                                           Instant now);
// `packet`: the one that was refused; null if it was an earlier READ whose memory has gone since.
[[nodiscard]] FailedRequest refused_request(const QueuePair& qp, const wire::TransportPacket* packet,
                                            wire::NakCode nak, objects::Cause cause, Instant now);

}  // namespace rrdma::transport
