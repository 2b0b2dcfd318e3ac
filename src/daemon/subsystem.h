// Subsystem: one concern of the daemon (slots, peers, registry, multicast, and whatever comes). The
// server hands every message to the subsystems in turn, tells them when a client is gone, and wakes
// them at their deadlines; descriptors of their own they watch in the EventLoop themselves.
#pragma once

#include "base/instant.h"
#include "control/message_socket.h"

namespace rrdma::daemon {

class Client;

class Subsystem {
 public:
  virtual ~Subsystem() = default;

  // kOthers: not one of its types. kMalformed ends the client: nobody sends such a thing by accident.
  enum class Verdict : std::uint8_t { kHandled, kOthers, kMalformed };
  virtual Verdict handle_message(Client& client, control::Received& message) = 0;
  // The program is gone or said good-bye; `client` is good for the last time.
  virtual void handle_client_gone(Client& client) { (void)client; }
  [[nodiscard]] virtual Instant next_deadline() const { return kNever; }
  virtual void handle_deadline(Instant now) { (void)now; }
};

}  // namespace rrdma::daemon
