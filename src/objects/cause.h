// Cause: why a work request failed, in more detail than its completion status. It is the upper byte of
// vendor_err, with the PSN in the lower three, so that `rrdma explain` can tell what happened.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/numbers.h"

namespace rrdma::objects {

enum class Cause : std::uint8_t {
  kNone = 0,
  // This side failed to read or write the memory of a work request.
  kLocalKeyUnknown = 1,
  kLocalKeyOtherDomain = 2,
  kLocalOutOfBounds = 3,
  kLocalNotWritable = 4,
  kLocalMemoryFault = 5,
  kMessageTooLong = 6,
  kReceiveBufferTooSmall = 7,
  kOperationNotAllowed = 8,
  kWindowBindRefused = 9,
  kInvalidateRefused = 10,
  kPathUnusable = 11,
  // The peer's answer.
  kPeerSaidInvalidRequest = 32,
  kPeerSaidAccessError = 33,
  kPeerSaidOperationalError = 34,
  kPeerNotReady = 35,     // RNR retries exhausted
  kPeerSilent = 36,       // acknowledgement timeouts exhausted
  kPeerBadResponse = 37,  // a response that does not fit its request
  kPeerKeepsNaking = 38,  // sequence NAKs without progress, retries exhausted
  kPeerGone = 39,         // the other process died (same host)
  // This side refused a request as responder.
  kRemoteKeyUnknown = 64,
  kRemoteKeyOtherDomain = 65,
  kRemoteKeyOtherQueuePair = 66,
  kRemoteOutOfBounds = 67,
  kRemoteAccessNotGranted = 68,
  kRemoteMemoryFault = 69,
  kRequestOpcodeUnexpected = 70,
  kRequestLengthWrong = 71,
  kRequestNotEnabled = 72,  // by the QP's access flags or its type
  kAtomicMisaligned = 73,
  kTooManyReads = 74,  // more READs and ATOMICs in flight than max_dest_rd_atomic
  kRemoteInvalidateRefused = 75,
  // The request itself is not at fault.
  kFlushed = 96,
  kQueuePairDestroyed = 97,
};

// A clause without a full stop: "the remote key is not known".
std::string_view describe(Cause cause);
// The remedy: one sentence with its full stop.
std::string_view remedy(Cause cause);

constexpr std::uint32_t vendor_error(Cause cause, wire::Psn psn) {
  return static_cast<std::uint32_t>(cause) << 24 | psn.value;
}
constexpr Cause cause_of(std::uint32_t vendor_err) { return static_cast<Cause>(vendor_err >> 24); }
constexpr wire::Psn psn_of(std::uint32_t vendor_err) { return wire::Psn(vendor_err); }

}  // namespace rrdma::objects
