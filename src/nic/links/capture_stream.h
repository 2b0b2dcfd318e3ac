// CaptureStream: sends packets to `rrdma capture`, which writes the file and enforces its limits. A socket
// message holds whole pcapng blocks. If the tool is slower than the traffic, or stopped, the program waits
// briefly, once; after that packets are left out and counted. The count is sent last and waits for room: a
// tool that ends a capture reads until the socket is closed.
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
  // May wait for room: do not call it under a lock that a program needs.
  ~CaptureStream() override;

  void append(Octets block) override;
  void write_out() override;
  [[nodiscard]] std::uint64_t take_lost() override { return std::exchange(lost_, 0); }

 private:
  // The size of one message. A socket holds few messages and few bytes; this size wastes neither.
  static constexpr std::size_t kMessageOctets = 64 * 1024;
  [[nodiscard]] bool send_message(Octets message);
  [[nodiscard]] bool send(Octets message, int flags);

  OwnedFd socket_;
  bool stalled_ = false;  // the last message found no room: do not wait again until one does
  std::uint64_t lost_ = 0;
  std::uint64_t buffered_packets_ = 0;
  std::vector<std::uint8_t> buffer_;
  std::vector<std::uint8_t> last_;  // statistics of the links
};

}  // namespace rrdma::nic
