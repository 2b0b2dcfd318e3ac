// Captures: packets of running programs for a tool that writes them to a file. The daemon only passes the
// order and the descriptor on; programs send by themselves. One capture at a time, which lives no
// longer than the connection of the tool that asked for it.
#pragma once

#include <optional>

#include "base/owned_fd.h"
#include "control/capture_messages.h"
#include "daemon/client.h"
#include "daemon/server.h"
#include "daemon/subsystem.h"

namespace rrdma::daemon {

class Captures final : public Subsystem {
 public:
  // REQUIRES: the server outlives this. Added before the subsystem that gives out slots: a program hears of a
  // capture before it can send.
  explicit Captures(Server& server) : server_(server) {}

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;

 private:
  struct Running {
    Client* tool;
    std::uint32_t pid;  // 0: all
    std::uint32_t snap_octets;
    OwnedFd socket;
  };

  void start(Client& client, control::Received& request, const control::StartCapture& wanted);
  void stop();
  // True when the program records from now on.
  bool order(Client& program);
  [[nodiscard]] static bool may_watch(const Client& tool, const Client& program);

  Server& server_;
  std::optional<Running> running_;
};

}  // namespace rrdma::daemon
