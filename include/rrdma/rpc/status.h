// Status: the outcome of a call. Result<T>: a value, or a Status that is an error. The codes and their
// numbers are those of gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "rrdma/comm/error.h"
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

class [[nodiscard]] RRDMA_RPC_API Status {
 public:
  Status() = default;
  Status(Code code, std::string message = {}, std::string details = {}) : code_(code) {
    if (!message.empty() || !details.empty())
      words_ = std::make_shared<const Words>(Words{std::move(message), std::move(details)});
  }

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

// Converts an error of the transport into the status of a call.
[[nodiscard]] RRDMA_RPC_API Status status_of(const comm::Error& error);

// The exception that value_or_throw() throws.
class RRDMA_RPC_API Failure : public std::runtime_error {
 public:
  explicit Failure(Status status);
  ~Failure() override;
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  Status status_;
};

namespace detail {
[[noreturn]] RRDMA_RPC_API void throw_failure(Status status);
[[noreturn]] RRDMA_RPC_API void no_value(const Status& status);
}  // namespace detail

template <typename T>
class [[nodiscard]] Result {
 public:
  using Value = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // REQUIRES: !status.ok().
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}
  Result(Code code, std::string message = {}) : Result(Status(code, std::move(message))) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  // REQUIRES: ok(). Otherwise prints the status and aborts the program.
  T& value() & { return checked(); }
  T&& value() && { return std::move(checked()); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T& operator*() & { return checked(); }
  T&& operator*() && { return std::move(checked()); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }
  // Returns the value, or throws Failure.
  T value_or_throw() && {
    if (!ok()) detail::throw_failure(*std::get_if<1>(&state_));
    return std::move(*std::get_if<0>(&state_));
  }
  T& value_or_throw() & {
    if (!ok()) detail::throw_failure(*std::get_if<1>(&state_));
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] Status status() const { return ok() ? Status() : *std::get_if<1>(&state_); }

 private:
  T& checked() {
    if (!ok()) [[unlikely]]
      detail::no_value(*std::get_if<1>(&state_));
    return *std::get_if<0>(&state_);
  }
  std::variant<T, Status> state_;
};

}  // namespace v0
}  // namespace rrdma::rpc
