#include "tools/capture/block_intake.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace rrdma::tools {
namespace {

constexpr std::size_t kMessageOctetsMax = 512 * 1024;
constexpr std::size_t kMessagesAtOnce = 256;

std::uint32_t load_le32(const std::uint8_t* from) { return swap_octets(load_be32(from)); }
std::uint64_t load_le64(const std::uint8_t* from) {
  return load_le32(from) | static_cast<std::uint64_t>(load_le32(from + 4)) << 32;
}

// The layout that PcapngWriter::write_statistics emits: interface, time, then two options of eight bytes
// each.
std::uint64_t left_out_of(Octets statistics) {
  constexpr std::size_t kValueOffset = 8 + 12 + 12 + 4;
  return statistics.size() < kValueOffset + 8 ? 0 : load_le64(statistics.data() + kValueOffset);
}

}  // namespace

Octets first_block(Octets message) {
  constexpr std::size_t kFrameOctets = 12;
  if (message.size() < kFrameOctets) return {};
  const std::uint32_t length = load_le32(message.data() + 4);
  if (length < kFrameOctets || length % 4 != 0 || length > message.size()) return {};
  if (load_le32(message.data() + length - 4) != length) return {};
  return message.first(length);
}

BlockIntake::BlockIntake(OwnedFd socket, std::unique_ptr<link::CaptureFile> file)
    : socket_(std::move(socket)), file_(std::move(file)), message_(kMessageOctetsMax) {}

bool BlockIntake::take_all() {
  const std::uint64_t lost_before = file_->lost();
  for (std::size_t i = 0; i < kMessagesAtOnce && !complete(); ++i) {
    const ssize_t length = ::recv(socket_.get(), message_.data(), message_.size(), MSG_DONTWAIT);
    ended_ = length == 0;
    if (length <= 0) break;
    take(Octets(message_).first(static_cast<std::size_t>(length)));
  }
  return file_->lost() == lost_before;
}

void BlockIntake::take(Octets message) {
  while (!message.empty()) {
    const Octets block = first_block(message);
    if (block.empty()) return;
    if (link::kind_of(block) == link::BlockKind::kStatistics) left_out_ += left_out_of(block);
    file_->append(block);
    message = message.subspan(block.size());
  }
}

}  // namespace rrdma::tools
