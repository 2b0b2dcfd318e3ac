// FailedRequest: what the engine knows about a work request at the moment it fails, or about a peer's request
// that it refuses. EventSink::on_request_failed receives it before the completion can be polled, so the
// explanation exists when the status becomes visible. It holds values only; the sink forms the sentences.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/instant.h"
#include "objects/completion_queue.h"
#include "objects/work_queue.h"
#include "wire/gid.h"
#include "wire/numbers.h"
#include "wire/transport_packet.h"

namespace rrdma::transport {

struct QueuePair;

// One more attempt to send the oldest unacknowledged packet.
struct Attempt {
  enum class Why : std::uint8_t { kSilence, kSequenceNak, kNotReady };
  Instant at;
  Why why = Why::kSilence;
};

// Attempts for the packet at RequesterState::una; cleared when it is acknowledged. `req.attempts` counts all
// of them; the latest are kept here.
struct AttemptHistory {
  static constexpr std::size_t kKept = 8;
  Instant since;              // when the wait for an answer to the first attempt began
  std::uint8_t syndrome = 0;  // of the last NAK; 0: none
  std::array<Attempt, kKept> last{};
};

struct FailedRequest {
  enum class Side : std::uint8_t {
    kSend,     // our send request
    kReceive,  // our receive request
    kRefused,  // a request of the peer, which has no completion here
  };
  Side side = Side::kSend;
  objects::Status status = objects::Status::kSuccess;  // of the completion; for kRefused: as the peer sees it
  objects::Cause cause = objects::Cause::kNone;
  objects::CompletionOpcode opcode = objects::CompletionOpcode::kSend;
  std::uint64_t wr_id = 0;
  std::uint32_t length = 0;  // of the message, or the room of a receive request
  std::uint32_t moved = 0;   // bytes acknowledged or received; if refused for its length: bytes that arrived
  wire::RKey rkey;           // with remote_address: one-sided operations
  std::uint64_t remote_address = 0;
  wire::Psn psn;
  wire::Gid peer;
  wire::Qpn peer_qpn;
  std::uint8_t syndrome = 0;  // AETH of the deciding answer, received or (kRefused) sent; 0: none
  Instant at;
  std::span<const objects::Sge> elements;  // of our request; valid during the call
  CallSite posted;                         // kSend
};

[[nodiscard]] FailedRequest failed_send(const QueuePair& qp, const objects::SendEntry& entry,
                                        objects::Status status, objects::Cause cause, Instant now);
[[nodiscard]] FailedRequest failed_receive(const QueuePair& qp, const objects::Completion& completion,
                                           Instant now);
// `packet`: the refused one; null if an earlier READ's memory is no longer registered.
[[nodiscard]] FailedRequest refused_request(const QueuePair& qp, const wire::TransportPacket* packet,
                                            wire::NakCode nak, objects::Cause cause, Instant now);

}  // namespace rrdma::transport
