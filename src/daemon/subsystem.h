// Subsystem: one concern of the daemon (slots, peers, registry, multicast, and others). The server offers
// every message to the subsystems in turn, reports the end of a client, and wakes them at their deadlines.
// They watch their own descriptors in the EventLoop.
#pragma once

#include "base/instant.h"
#include "control/message_socket.h"

namespace rrdma::daemon {

class Client;

class Subsystem {
 public:
  virtual ~Subsystem() = default;

  // kOthers: not one of its types. kMalformed ends the client, because it is never an accident.
  enum class Verdict : std::uint8_t { kHandled, kOthers, kMalformed };
  virtual Verdict handle_message(Client& client, control::Received& message) = 0;
  // The program is gone or closed its connection; `client` is valid for the last time.
  virtual void handle_client_gone(Client& client) { (void)client; }
  [[nodiscard]] virtual Instant next_deadline() const { return kNever; }
  virtual void handle_deadline(Instant now) { (void)now; }
};

}  // namespace rrdma::daemon
