// BlockIntake: writes the packets that programs send to the capture file. A message consists of whole pcapng
// blocks. Other messages are discarded, because programs of other users may send anything.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/octets.h"
#include "base/owned_fd.h"
#include "link/capture_sink.h"

namespace rrdma::tools {

class BlockIntake {
 public:
  BlockIntake(OwnedFd socket, std::unique_ptr<link::CaptureFile> file);

  [[nodiscard]] int socket() const { return socket_.get(); }
  // Takes all pending messages. Returns false if the file cannot be written any more.
  [[nodiscard]] bool take_all();
  void write_out() { file_->write_out(); }
  // True if all senders are gone and everything they sent was taken.
  [[nodiscard]] bool ended() const { return ended_; }

  [[nodiscard]] bool complete() const { return file_->complete(); }
  [[nodiscard]] const link::CaptureFile& file() const { return *file_; }
  // Packets that programs could not send, or that the file had no room for.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_ + file_->lost(); }

 private:
  void take(Octets message);

  OwnedFd socket_;
  std::unique_ptr<link::CaptureFile> file_;
  bool ended_ = false;
  std::uint64_t left_out_ = 0;
  std::vector<std::uint8_t> message_;
};

// Returns the first block of a message, or an empty span if its lengths are invalid.
[[nodiscard]] Octets first_block(Octets message);

}  // namespace rrdma::tools
