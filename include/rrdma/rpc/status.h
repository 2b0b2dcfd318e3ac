// Status: the outcome of a call. Result<T>: a value, or a Status that is an error. The codes and their
// numbers are those of gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "rrdma/comm/error.h"
#include "rrdma/comm/result.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

enum class Code : std::uint8_t {
  kOk = 0,
  kCancelled = 1,           // the caller or this end cancelled the call
  kUnknown = 2,             // a handler failed without a specific code
  kInvalidArgument = 3,     // the argument is invalid in any state of the service
  kDeadlineExceeded = 4,    // the deadline passed; the call may have taken effect
  kNotFound = 5,            // the requested object does not exist
  kAlreadyExists = 6,       // the object to create already exists
  kPermissionDenied = 7,    // the caller lacks permission
  kResourceExhausted = 8,   // memory, room or a quota is exhausted
  kFailedPrecondition = 9,  // the service is not in the required state
  kAborted = 10,            // a conflict with other calls; retrying the whole sequence may help
  kOutOfRange = 11,         // beyond the end of something
  kUnimplemented = 12,      // the server does not have this method, or not in this form
  kInternal = 13,           // an internal error
  kUnavailable = 14,        // the server is unreachable or shutting down
  kDataLoss = 15,           // unrecoverable loss of data
  kUnauthenticated = 16,    // the caller did not authenticate
};
inline constexpr std::uint8_t kHighestCode = 16;

[[nodiscard]] RRDMA_RPC_API std::string_view name_of(Code code);

// The code of a call that failed by an error of rrdma::comm:
//
//   kCancelled           kCancelled
//   kDeadline            kDeadlineExceeded
//   kUnreachable, kRefused, kClosed, kClosedByPeer, kPeerGone, kInUse    kUnavailable
//   kVersion             kFailedPrecondition
//   kTooLarge, kNoMemory kResourceExhausted
//   kBadAddress, kInvalid    kInvalidArgument
//   kNoDevice, kNotSupported, kRemoteAccess, kLocalAccess, kProtocol, kSystem    kInternal
[[nodiscard]] RRDMA_RPC_API Code code_of(comm::Code code);

class Status;

namespace detail {
[[noreturn]] RRDMA_RPC_API void throw_failure(Status status);
[[noreturn]] RRDMA_RPC_API void no_value(const Status& status);
}  // namespace detail

class [[nodiscard]] RRDMA_RPC_API Status {
 public:
  Status() = default;
  Status(Code code, std::string message = {}, std::string details = {}) : code_(code) {
    if (!message.empty() || !details.empty())
      words_ = std::make_shared<const Words>(Words{std::move(message), std::move(details)});
  }
  // An error of rrdma::comm, with the code of code_of() and the text of Error::what().
  Status(const comm::Error& error);
  // The outcome of an operation of rrdma::comm without a value.
  Status(const comm::Result<void>& done) : Status(done.ok() ? Status() : Status(done.error())) {}

  [[nodiscard]] bool ok() const { return code_ == Code::kOk; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] Code code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return words().message; }
  // Additional bytes that the server's application set.
  [[nodiscard]] const std::string& details() const { return words().details; }
  // The server reported that the call never started, so repeating it is safe for any method.
  [[nodiscard]] bool refused() const { return refused_; }
  Status as_refused() && {
    refused_ = true;
    return std::move(*this);
  }
  // One sentence: "not found: no such key".
  [[nodiscard]] std::string what() const;
  // Throws Failure. REQUIRES: !ok().
  [[noreturn]] void raise() const;

 private:
  struct Words {
    std::string message;
    std::string details;
  };
  [[nodiscard]] const Words& words() const { return words_ ? *words_ : no_words(); }
  static const Words& no_words();

  Code code_ = Code::kOk;
  bool refused_ = false;
  std::shared_ptr<const Words> words_;  // null for most calls: keeps Status small
};

// Status(error), for older programs.
[[nodiscard]] RRDMA_RPC_API Status status_of(const comm::Error& error);

// The exception that raise() and value_or_throw() throw.
class RRDMA_RPC_API Failure : public std::runtime_error {
 public:
  explicit Failure(Status status);
  ~Failure() override;
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  Status status_;
};

inline void Status::raise() const { detail::throw_failure(*this); }

// A value, or a Status that is an error.
template <typename T>
using Result = comm::BasicResult<T, Status>;

}  // namespace v0
}  // namespace rrdma::rpc
