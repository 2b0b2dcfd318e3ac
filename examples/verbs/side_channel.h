// The TCP connection over which two programs exchange their queue pair numbers before they use RDMA.
#pragma once

#include <string>

#include "examples/verbs/queue_pair.h"
#include "examples/verbs/workload.h"

namespace examples {

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  // An empty `address` listens on all addresses.
  static Socket listen(const std::string& address, std::uint16_t port);
  [[nodiscard]] Socket accept() const;
  static Socket connect(const std::string& address, std::uint16_t port);

  // One line of text, without its newline. Both fail if the other end is gone.
  void write_line(const std::string& line) const;
  [[nodiscard]] std::string read_line() const;

 private:
  int descriptor_;
};

// Conversion of an endpoint to a line and back.
std::string line_of(const Endpoint& endpoint);
Endpoint endpoint_of(const std::string& line);
std::string line_of(const Plan& plan);
Plan plan_of(const std::string& line);

}  // namespace examples
