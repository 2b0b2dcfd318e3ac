// The server of the inspector: the page and what it asks for, on loopback. The address holds a random token, and
// a request with a wrong token, a foreign Host or Origin, or another method than GET is refused: neither other
// users of the machine nor other pages in the same browser can read anything. It only reads, unless it is told that
// orders may be given: then its own page may POST them, to one place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rrdma::tools {

struct ServerContent {
  std::string image;  // of the capture; empty: there is none
  std::function<std::string(std::uint32_t packet)> details;
  std::uint32_t packets = 0;
  std::function<std::string()> live;  // what programs tell at this moment, one line of JSON; empty: not live
  std::function<std::string(std::string_view words)> order;  // answers in JSON; empty: nothing may be changed
};

// Whether a request may be answered; the reason if not. `authority`: 127.0.0.1:PORT.
struct RequestHead {
  std::string_view method, path, host, origin;
};
enum class Admission { kAdmitted, kAdmittedOrder, kWrongMethod, kForeignHost, kForeignOrigin, kWrongToken };
// `orders`: whether any may be given.
[[nodiscard]] Admission admission_of(const RequestHead& head, std::string_view token, int port,
                                     bool orders = false);
inline constexpr std::string_view kOrderPath = "fault";  // behind the token

class InspectServer {
 public:
  explicit InspectServer(ServerContent content);
  ~InspectServer();

  // Port 0: any. Returns the address to open, or why there is none.
  [[nodiscard]] Result<std::string, std::string> start(int port);
  // Waits until `stop_wanted()` says so, looking ten times a second; then ends all connections.
  void serve(const std::function<bool()>& stop_wanted);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rrdma::tools
