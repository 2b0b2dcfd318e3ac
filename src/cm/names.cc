// Texts for errors, states and events.
#include "cm/connection.h"
#include "cm/parameters.h"
#include "cm/values/event.h"

namespace rrdma::cm {

std::string_view describe(Error error) {
  switch (error) {
    case Error::kUnknownConnection: return "there is no such connection";
    case Error::kUnknownListener: return "there is no such listener";
    case Error::kWrongState: return "the connection is not in a state for this";
    case Error::kAlreadyEstablished: return "the connection is established already";
    case Error::kPrivateDataTooLong: return "the private data does not fit into the message";
    case Error::kInfoTooLong: return "the additional information does not fit into the message";
    case Error::kInvalidPathMtu: return "the path MTU is none of 256, 512, 1024, 2048 and 4096";
    case Error::kInvalidQpType: return "a queue pair of this type cannot ask for a connection";
    case Error::kTooManyConnections: return "the host has as many connections as it may have";
    case Error::kTooManyListeners: return "the host has as many listeners as it may have";
    case Error::kServiceInUse: return "somebody listens there already";
    case Error::kIdInUse: return "the communication ID is in use";
  }
  return "unknown";
}

std::string_view state_name(State state) {
  switch (state) {
    case State::kIdle: return "idle";
    case State::kReqSent: return "REQ sent";
    case State::kMraReqReceived: return "REQ sent, MRA received";
    case State::kReqReceived: return "REQ received";
    case State::kMraReqSent: return "REQ received, MRA sent";
    case State::kRepSent: return "REP sent";
    case State::kMraRepReceived: return "REP sent, MRA received";
    case State::kRepReceived: return "REP received";
    case State::kMraRepSent: return "REP received, MRA sent";
    case State::kEstablished: return "established";
    case State::kDreqSent: return "DREQ sent";
    case State::kDreqReceived: return "DREQ received";
    case State::kTimeWait: return "TIMEWAIT";
    case State::kRejected: return "rejected";
    case State::kSidrReqSent: return "SIDR_REQ sent";
    case State::kSidrReqReceived: return "SIDR_REQ received";
    case State::kSidrReplied: return "SIDR_REP sent";
  }
  return "unknown";
}

std::string_view event_name(const EventDetails& details) {
  struct Name {
    std::string_view operator()(const ConnectRequest&) const { return "connect request"; }
    std::string_view operator()(const ConnectReply&) const { return "connect reply"; }
    std::string_view operator()(const Established&) const { return "established"; }
    std::string_view operator()(const Rejected&) const { return "rejected"; }
    std::string_view operator()(const Unreachable&) const { return "unreachable"; }
    std::string_view operator()(const Disconnected&) const { return "disconnected"; }
    std::string_view operator()(const TimeWaitExit&) const { return "TIMEWAIT exit"; }
    std::string_view operator()(const LookupRequest&) const { return "lookup request"; }
    std::string_view operator()(const LookupReply&) const { return "lookup reply"; }
  };
  return std::visit(Name{}, details);
}

}  // namespace rrdma::cm
