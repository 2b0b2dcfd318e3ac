#include "nic/links/capture_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/raw_syscall.h"

namespace rrdma::nic {
namespace {

constexpr timespec kPatience = {.tv_sec = 0, .tv_nsec = 100'000'000};
constexpr timeval kLastPatience = {.tv_sec = 2, .tv_usec = 0};

}  // namespace

CaptureStream::CaptureStream(OwnedFd socket) : socket_(std::move(socket)) { buffer_.reserve(kMessageOctets); }

CaptureStream::~CaptureStream() {
  write_out();
  if (last_.empty()) return;
  (void)raw::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kLastPatience, sizeof kLastPatience);
  (void)send(last_, 0);
}

void CaptureStream::append(Octets block) {
  const link::BlockKind kind = link::kind_of(block);
  if (kind == link::BlockKind::kStatistics) {
    last_.insert(last_.end(), block.begin(), block.end());
    return;
  }
  if (buffer_.size() + block.size() > kMessageOctets) write_out();
  buffer_.insert(buffer_.end(), block.begin(), block.end());
  if (kind == link::BlockKind::kPacket) ++buffered_packets_;
}

bool CaptureStream::send(Octets message, int flags) {
  for (;;) {
    if (raw::sendto(socket_.get(), message.data(), message.size(), flags | MSG_NOSIGNAL, nullptr, 0) >= 0)
      return true;
    if (errno != EINTR) return false;
  }
}

bool CaptureStream::send_message(Octets message) {
  for (;;) {
    if (send(message, MSG_DONTWAIT)) {
      stalled_ = false;
      return true;
    }
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
