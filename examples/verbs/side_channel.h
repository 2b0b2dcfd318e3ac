// The TCP connection over which two programs tell each other their queue pairs, before RDMA can begin.
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

  // `address` empty: all addresses.
  static Socket listen(const std::string& address, std::uint16_t port);
  [[nodiscard]] Socket accept() const;
  static Socket connect(const std::string& address, std::uint16_t port);

  // One line of text, without its end. Either fails when the other end is gone.
  void write_line(const std::string& line) const;
  [[nodiscard]] std::string read_line() const;

 private:
  int descriptor_;
};

// Both ends of a line.
std::string line_of(const Endpoint& endpoint);
Endpoint endpoint_of(const std::string& line);
std::string line_of(const Plan& plan);
Plan plan_of(const std::string& line);

}  // namespace examples
