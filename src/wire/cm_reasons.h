// The codes by which the connection manager refuses: reasons of a REJ, statuses of a SIDR_REP and of an APR.
// An incoming code that is not named here is kept as it is.
#pragma once

#include <cstdint>
#include <string_view>

namespace rrdma::wire {

// IBTA volume 1, 12.6.7.2.
enum class RejectReason : std::uint16_t {
  kNoQp = 1,
  kNoEec = 2,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupportedRequest = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,
  kInvalidTransportType = 9,
  kStaleConnection = 10,
  kRdcNotExisting = 11,
  kInvalidGid = 12,
  kInvalidLid = 13,
  kInvalidServiceLevel = 14,
  kInvalidTrafficClass = 15,
  kInvalidHopLimit = 16,
  kInvalidPacketRate = 17,
  kInvalidAlternateGid = 18,
  kInvalidAlternateLid = 19,
  kInvalidAlternateServiceLevel = 20,
  kInvalidAlternateTrafficClass = 21,
  kInvalidAlternateHopLimit = 22,
  kInvalidAlternatePacketRate = 23,
  kPortCmRedirect = 24,
  kPortRedirect = 25,
  kInvalidPathMtu = 26,
  kInsufficientResponderResources = 27,
  kConsumerDefined = 28,
  kInvalidRnrRetry = 29,
  kDuplicateLocalCommId = 30,
  kInvalidClassVersion = 31,
  kInvalidFlowLabel = 32,
  kInvalidAlternateFlowLabel = 33,
  kVendorOptionNotSupported = 35,
};
[[nodiscard]] std::string_view describe(RejectReason reason);

enum class SidrStatus : std::uint8_t {
  kValid = 0,
  kServiceNotSupported = 1,
  kRejected = 2,
  kNoQp = 3,
  kRedirect = 4,
  kVersionNotSupported = 5,
};
[[nodiscard]] std::string_view describe(SidrStatus status);

enum class AlternatePathStatus : std::uint8_t {
  kLoaded = 0,
  kInvalidCommId = 1,
  kNotSupported = 2,
  kRejected = 3,
  kRedirect = 4,
  kIsCurrent = 5,
  kInvalidQpn = 6,
  kInvalidLid = 7,
  kInvalidGid = 8,
  kInvalidFlowLabel = 9,
  kInvalidTrafficClass = 10,
  kInvalidHopLimit = 11,
  kInvalidPacketRate = 12,
  kInvalidServiceLevel = 13,
};
[[nodiscard]] std::string_view describe(AlternatePathStatus status);

}  // namespace rrdma::wire
