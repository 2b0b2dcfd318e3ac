// Status texts, and the mapping of transport errors to status codes.
#include "rrdma/rpc/status.h"

#include <cstdio>
#include <cstdlib>

namespace rrdma::rpc {
inline namespace v0 {

std::string Status::what() const {
  std::string text(name_of(code_));
  if (!message().empty()) text += ": " + message();
  return text;
}

const Status::Words& Status::no_words() {
  static const Words none;
  return none;
}

Code code_of(comm::Code code) {
  using Wire = comm::Code;
  switch (code) {
    case Wire::kDeadline: return Code::kDeadlineExceeded;
    case Wire::kCancelled: return Code::kCancelled;
    case Wire::kUnreachable:
    case Wire::kRefused:
    case Wire::kClosed:
    case Wire::kClosedByPeer:
    case Wire::kInUse:
    case Wire::kPeerGone: return Code::kUnavailable;
    case Wire::kVersion: return Code::kFailedPrecondition;
    case Wire::kTooLarge:
    case Wire::kNoMemory: return Code::kResourceExhausted;
    case Wire::kBadAddress:
    case Wire::kInvalid: return Code::kInvalidArgument;
    case Wire::kNoDevice:
    case Wire::kNotSupported:
    case Wire::kRemoteAccess:
    case Wire::kLocalAccess:
    case Wire::kProtocol:
    case Wire::kSystem: return Code::kInternal;
  }
  return Code::kInternal;
}

Status::Status(const comm::Error& error) : Status(code_of(error.code()), error.what()) {}
Status status_of(const comm::Error& error) { return error; }

Failure::Failure(Status status) : std::runtime_error(status.what()), status_(std::move(status)) {}
Failure::~Failure() = default;

namespace detail {
void throw_failure(Status status) { throw Failure(std::move(status)); }
void no_value(const Status& status) {
  std::fprintf(stderr, "rrdma::rpc: value() of a Result that holds a status: %s\n", status.what().c_str());
  std::abort();
}
}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
