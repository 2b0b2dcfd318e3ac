// CaptureStream: packets on their way to `rrdma capture`, which writes the file and minds its limits. A message
// of the socket holds whole pcapng blocks. The tool may be slower than the traffic, or stopped: then the
// program waits for a moment, once, and after that packets are left out and counted. The count comes last and
// waits for room: a tool that ends a capture reads on until the socket is closed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/owned_fd.h"
#include "link/capture_sink.h"

namespace rrdma::nic {

class CaptureStream final : public link::CaptureSink {
 public:
  explicit CaptureStream(OwnedFd socket);
  // May wait for room: not under a lock that a program needs.
  ~CaptureStream() override;

  void append(Octets block) override;
  void write_out() override;
  [[nodiscard]] std::uint64_t take_lost() override { return std::exchange(lost_, 0); }

 private:
  // What one message may hold. Few messages may wait in a socket, and few octets: neither is wasted that way.
  static constexpr std::size_t kMessageOctets = 64 * 1024;
  [[nodiscard]] bool send_message(Octets message);
  [[nodiscard]] bool send(Octets message, int flags);

  OwnedFd socket_;
  bool stalled_ = false;  // the last message found no room: do not wait again until one did
  std::uint64_t lost_ = 0;
  std::uint64_t buffered_packets_ = 0;
  std::vector<std::uint8_t> buffer_;
  std::vector<std::uint8_t> last_;  // statistics of the links
};

}  // namespace rrdma::nic
