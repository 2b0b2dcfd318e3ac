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

Status status_of(const comm::Error& error) {
  using Wire = comm::Code;
  Code code = Code::kInternal;
  switch (error.code()) {
    case Wire::kDeadline: code = Code::kDeadlineExceeded; break;
    case Wire::kCancelled: code = Code::kCancelled; break;
    case Wire::kUnreachable:
    case Wire::kRefused:
    case Wire::kClosed:
    case Wire::kClosedByPeer:
    case Wire::kInUse:
    case Wire::kPeerGone: code = Code::kUnavailable; break;
    case Wire::kVersion: code = Code::kFailedPrecondition; break;
    case Wire::kTooLarge:
    case Wire::kNoMemory: code = Code::kResourceExhausted; break;
    case Wire::kBadAddress:
    case Wire::kInvalid: code = Code::kInvalidArgument; break;
    default: break;
  }
  return {code, error.what()};
}

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
