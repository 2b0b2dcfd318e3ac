// Messages and descriptors over a connected SOCK_SEQPACKET socket, by raw system calls. Nothing here blocks;
// poll the socket to wait. The caller owns the socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/owned_fd.h"
#include "control/messages.h"

namespace rrdma::control {

// A message as received: the version is the sender's, and the body is not decoded yet.
struct Received {
  Header header;
  std::vector<std::uint8_t> body;
  std::vector<OwnedFd> fds;
  // Of the process that sent this message, when it did; only where the socket has SO_PASSCRED.
  std::optional<uid_t> sender;

  [[nodiscard]] MessageType type() const { return static_cast<MessageType>(header.type); }
  // The message, if it has this type and our version and is well formed.
  template <typename Message>
  [[nodiscard]] std::optional<Message> as() const {
    if (type() != Message::kType || header.version != kProtocolVersion) return std::nullopt;
    return decode<Message>(body);
  }
};

enum class SendOutcome : std::uint8_t {
  kSent,
  kWouldBlock,  // the receiver is too slow
  kGone,        // the other end is closed
  kRefused,     // the kernel did not pass the descriptors (errno: ETOOMANYREFS, EBADF)
};

// REQUIRES: fds.size() <= kFdsMax.
[[nodiscard]] SendOutcome send_datagram(int socket, Octets datagram, std::span<const int> fds = {});

// The first message of a connection. A daemon under attack takes descriptors only after it has accepted the
// connection: waits for that, up to a second.
[[nodiscard]] SendOutcome send_greeting(int socket, Octets datagram, std::span<const int> fds);

// Whether messages to a socket may carry descriptors (SO_PASSRIGHTS). A connection inherits it from the
// socket that listens. Always true before Linux 6.16.
void let_take_descriptors(int socket, bool allowed);
[[nodiscard]] bool takes_descriptors(int socket);

enum class ReceiveOutcome : std::uint8_t {
  kMessage,
  kNothing,    // no message is waiting
  kGone,       // the other end is closed
  kMalformed,  // not a message of this protocol; the caller owns its descriptors
};

[[nodiscard]] ReceiveOutcome receive_message(int socket, Received& received);

}  // namespace rrdma::control
