// Captures: packets of running programs for a tool that writes them to a file. The daemon only passes the
// order and the descriptor on; programs send by themselves. Each user has at most one, which lives no
// longer than the connection of the tool that asked for it. Root's goes before those of users: while it runs, it has
// the packets that it wants.
#pragma once

#include <vector>

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
    control::PeerIdentity user;  // as it was when it asked
    bool is_root;
    std::uint32_t pid;  // 0: all
    std::uint32_t snap_octets;
    OwnedFd socket;
  };

  void start(Client& client, control::Received& request, const control::StartCapture& wanted);
  void stop(const Client& tool);
  // Tells the program what it has to do; true when it records for `tool` from now on.
  bool order(Client& program, const Client* tool = nullptr);
  [[nodiscard]] static bool may_watch(const Running& capture, const Client& program);
  // The capture that has a say for the program; null: none.
  [[nodiscard]] const Running* capture_of(const Client& program) const;

  Server& server_;
  std::vector<Running> running_;  // root's first
};

}  // namespace rrdma::daemon
