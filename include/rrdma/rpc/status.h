// Status: how a call ended. Result<T>: what it gave, or a Status that is not good. The codes are those that users of gRPC know, with the
// same numbers.
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
  kCancelled = 1,           // the caller, or this end, took it back
  kUnknown = 2,             // a handler failed without saying how
  kInvalidArgument = 3,     // the argument is wrong whatever the state of the service
  kDeadlineExceeded = 4,    // the time was over; it may have been done all the same
  kNotFound = 5,            // what was asked for does not exist
  kAlreadyExists = 6,       // what was to be made is there already
  kPermissionDenied = 7,    // the caller may not
  kResourceExhausted = 8,   // memory, room or a quota is used up
  kFailedPrecondition = 9,  // the service is not in the state for it
  kAborted = 10,            // a conflict with others; trying all of it again may help
  kOutOfRange = 11,         // beyond the end of something
  kUnimplemented = 12,      // the server does not know this method, or knows it in another form
  kInternal = 13,           // something is broken
  kUnavailable = 14,        // the server cannot be reached, or is about to go away
  kDataLoss = 15,           // something is lost for good
  kUnauthenticated = 16,    // the caller did not show who it is
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
  // Octets for the application, as the server set them.
  [[nodiscard]] const std::string& details() const { return words().details; }
  // The server said that the call was never begun: repeating it is safe whatever the method does.
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
  std::shared_ptr<const Words>
      words_;  // most calls end well and have none: every call carries a few of these
};

// What a failure of the transport means to a call.
[[nodiscard]] RRDMA_RPC_API Status status_of(const comm::Error& error);

// What value_or_throw() throws.
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
  // REQUIRES: ok(); the program ends with the status' sentence otherwise.
  T& value() & { return checked(); }
  T&& value() && { return std::move(checked()); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T& operator*() & { return checked(); }
  T&& operator*() && { return std::move(checked()); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }
  // The value, or Failure thrown.
  T value_or_throw() && {
    if (!ok()) detail::throw_failure(*std::get_if<1>(&state_));
    return std::move(*std::get_if<0>(&state_));
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
