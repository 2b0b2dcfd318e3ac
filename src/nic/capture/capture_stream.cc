#include "nic/capture/capture_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/raw_syscall.h"

namespace rrdma::nic {
namespace {

constexpr timespec kPatience = {.tv_sec = 0, .tv_nsec = 100'000'000};

}  // namespace

CaptureStream::CaptureStream(OwnedFd socket) : socket_(std::move(socket)) { buffer_.reserve(kMessageOctets); }

void CaptureStream::append(Octets block) {
  if (buffer_.size() + block.size() > kMessageOctets) write_out();
  buffer_.insert(buffer_.end(), block.begin(), block.end());
  if (link::kind_of(block) == link::BlockKind::kPacket) ++buffered_packets_;
}

bool CaptureStream::send_message(Octets message) {
  for (;;) {
    if (raw::sendto(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0) >=
        0) {
      stalled_ = false;
      return true;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN || stalled_) return false;
    pollfd room{socket_.get(), POLLOUT, 0};
    stalled_ = raw::ppoll(&room, 1, &kPatience) <= 0;
    if (stalled_) return false;
  }
}

void CaptureStream::write_out() {
  if (buffer_.empty()) return;
  if (!send_message(buffer_)) lost_ += buffered_packets_;
  buffer_.clear();
  buffered_packets_ = 0;
}

}  // namespace rrdma::nic
