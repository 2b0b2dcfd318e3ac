#include "wire/cm_reasons.h"

namespace rrdma::wire {

std::string_view describe(RejectReason reason) {
  switch (reason) {
    case RejectReason::kNoQp: return "no queue pair available";
    case RejectReason::kNoEec: return "no end-to-end context available";
    case RejectReason::kNoResources: return "no resources available";
    case RejectReason::kTimeout: return "timeout";
    case RejectReason::kUnsupportedRequest: return "unsupported request";
    case RejectReason::kInvalidCommId: return "invalid communication ID";
    case RejectReason::kInvalidCommInstance: return "invalid communication instance";
    case RejectReason::kInvalidServiceId: return "invalid service ID: nobody listens there";
    case RejectReason::kInvalidTransportType: return "invalid transport type";
    case RejectReason::kStaleConnection: return "stale connection: the queue pair is still connected";
    case RejectReason::kRdcNotExisting: return "no reliable datagram channel";
    case RejectReason::kInvalidGid: return "invalid GID";
    case RejectReason::kInvalidLid: return "invalid LID";
    case RejectReason::kInvalidServiceLevel: return "invalid service level";
    case RejectReason::kInvalidTrafficClass: return "invalid traffic class";
    case RejectReason::kInvalidHopLimit: return "invalid hop limit";
    case RejectReason::kInvalidPacketRate: return "invalid packet rate";
    case RejectReason::kInvalidAlternateGid: return "invalid alternate GID";
    case RejectReason::kInvalidAlternateLid: return "invalid alternate LID";
    case RejectReason::kInvalidAlternateServiceLevel: return "invalid alternate service level";
    case RejectReason::kInvalidAlternateTrafficClass: return "invalid alternate traffic class";
    case RejectReason::kInvalidAlternateHopLimit: return "invalid alternate hop limit";
    case RejectReason::kInvalidAlternatePacketRate: return "invalid alternate packet rate";
    case RejectReason::kPortCmRedirect: return "port and CM redirection";
    case RejectReason::kPortRedirect: return "port redirection";
    case RejectReason::kInvalidPathMtu: return "invalid path MTU";
    case RejectReason::kInsufficientResponderResources: return "insufficient responder resources";
    case RejectReason::kConsumerDefined: return "consumer defined: rejected by the program";
    case RejectReason::kInvalidRnrRetry: return "invalid RNR retry count";
    case RejectReason::kDuplicateLocalCommId: return "duplicate communication ID";
    case RejectReason::kInvalidClassVersion: return "invalid class version";
    case RejectReason::kInvalidFlowLabel: return "invalid flow label";
    case RejectReason::kInvalidAlternateFlowLabel: return "invalid alternate flow label";
    case RejectReason::kVendorOptionNotSupported: return "vendor option not supported";
  }
  return "unknown reason";
}

std::string_view describe(SidrStatus status) {
  switch (status) {
    case SidrStatus::kValid: return "valid";
    case SidrStatus::kServiceNotSupported: return "service ID not supported: nobody listens there";
    case SidrStatus::kRejected: return "consumer defined: rejected by the program";
    case SidrStatus::kNoQp: return "no queue pair available";
    case SidrStatus::kRedirect: return "redirection";
    case SidrStatus::kVersionNotSupported: return "version not supported";
  }
  return "unknown status";
}

std::string_view describe(AlternatePathStatus status) {
  switch (status) {
    case AlternatePathStatus::kLoaded: return "alternate path loaded";
    case AlternatePathStatus::kInvalidCommId: return "invalid communication ID";
    case AlternatePathStatus::kNotSupported: return "alternate paths not supported";
    case AlternatePathStatus::kRejected: return "alternate path rejected";
    case AlternatePathStatus::kRedirect: return "redirection";
    case AlternatePathStatus::kIsCurrent: return "the alternate path is the current one";
    case AlternatePathStatus::kInvalidQpn: return "invalid queue pair number";
    case AlternatePathStatus::kInvalidLid: return "invalid alternate LID";
    case AlternatePathStatus::kInvalidGid: return "invalid alternate GID";
    case AlternatePathStatus::kInvalidFlowLabel: return "invalid alternate flow label";
    case AlternatePathStatus::kInvalidTrafficClass: return "invalid alternate traffic class";
    case AlternatePathStatus::kInvalidHopLimit: return "invalid alternate hop limit";
    case AlternatePathStatus::kInvalidPacketRate: return "invalid alternate packet rate";
    case AlternatePathStatus::kInvalidServiceLevel: return "invalid alternate service level";
  }
  return "unknown status";
}

}  // namespace rrdma::wire
