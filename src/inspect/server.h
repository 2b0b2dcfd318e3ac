// The HTTP server of the inspector, on loopback. The address contains a random token. Requests with a wrong
// token, a foreign Host or Origin, or a method other than GET are refused. Thus neither other users of the
// host nor other pages in the browser can read anything. The server is read-only. If orders are enabled, its
// own page may POST them to one path.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rrdma::tools {

struct ServerContent {
  std::string image;  // of the capture; may be empty
  std::function<std::string(std::uint32_t packet)> details;
  std::uint32_t packets = 0;
  std::function<std::string()> live;  // state of the programs as one line of JSON; empty: not live
  std::function<std::string(std::uint32_t number)> captured;  // the report of a capture; empty: there is none
  std::function<std::string(std::string_view words)> order;   // answers in JSON; empty: orders are disabled
};

// Whether a request may be answered, or the reason for its refusal.
struct RequestHead {
  std::string_view method, path, host, origin;
};
enum class Admission { kAdmitted, kAdmittedOrder, kWrongMethod, kForeignHost, kForeignOrigin, kWrongToken };
// `orders`: whether orders are enabled.
[[nodiscard]] Admission admission_of(const RequestHead& head, std::string_view token, int port,
                                     bool orders = false);
inline constexpr std::string_view kOrderPath = "fault";  // after the token

class InspectServer {
 public:
  explicit InspectServer(ServerContent content);
  ~InspectServer();

  // Port 0 selects a free port. Returns the address to open, or the reason of the failure.
  [[nodiscard]] Result<std::string, std::string> start(int port);
  // Serves until `stop_wanted()` returns true, which is checked ten times a second. Then closes all
  // connections.
  void serve(const std::function<bool()>& stop_wanted);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rrdma::tools
