// Messages and descriptors over a connected SOCK_SEQPACKET socket, by raw system calls. Nothing here
// blocks: who wants to wait polls. The caller owns the socket.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/owned_fd.h"
#include "control/messages.h"

namespace rrdma::control {

// A message as it arrived: the version is the sender's, the body is not decoded yet.
struct Received {
  Header header;
  std::vector<std::uint8_t> body;
  std::vector<OwnedFd> fds;

  [[nodiscard]] MessageType type() const { return static_cast<MessageType>(header.type); }
  // The message, when it is of this type and version and well formed.
  template <typename Message>
  [[nodiscard]] std::optional<Message> as() const {
    if (type() != Message::kType || header.version != kProtocolVersion) return std::nullopt;
    return decode<Message>(body);
  }
};

enum class SendOutcome : std::uint8_t {
  kSent,
  kWouldBlock,  // the receiver is behind
  kGone,        // the other end is closed
  kRefused,     // the kernel took the message but not its descriptors (errno tells: ETOOMANYREFS, EBADF)
};

// REQUIRES: fds.size() <= kFdsMax.
[[nodiscard]] SendOutcome send_datagram(int socket, Octets datagram, std::span<const int> fds = {});

enum class ReceiveOutcome : std::uint8_t {
  kMessage,
  kNothing,    // none is waiting
  kGone,       // the other end is closed
  kMalformed,  // not a message of this protocol; descriptors that came with it are closed again
};

[[nodiscard]] ReceiveOutcome receive_message(int socket, Received& received);

}  // namespace rrdma::control
