// The server of the inspector: the page and what it asks for, on loopback. The address holds a random token, and
// a request with a wrong token, a foreign Host or Origin, or another method than GET is refused: neither other
// users of the machine nor other pages in the same browser can read anything. It only reads.
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
};

// Whether a request may be answered; the reason if not. `authority`: 127.0.0.1:PORT.
struct RequestHead {
  std::string_view method, path, host, origin;
};
enum class Admission { kAdmitted, kWrongMethod, kForeignHost, kForeignOrigin, kWrongToken };
[[nodiscard]] Admission admission_of(const RequestHead& head, std::string_view token, int port);

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
