// Log: a function of the program that gets the events of connections, with their fields, to write them as it
// writes its own. Calls are the business of `before` and `after` in the options.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace rrdma::rpc {
inline namespace v0 {

enum class LogLevel : std::uint8_t { kInfo, kWarning };

// Valid during the call of Log only.
struct LogEvent {
  LogLevel level = LogLevel::kInfo;
  // "connected", "refused", "broken" and "ended" of a server; "connected", "failed" and "lost" of a client.
  std::string_view event;
  std::string_view peer;   // an address
  std::string_view words;  // the reason; may be empty
};

// Called in the thread of the connection. It must not throw, and not end the server or the client.
using Log = std::function<void(const LogEvent&)>;

}  // namespace v0
}  // namespace rrdma::rpc
