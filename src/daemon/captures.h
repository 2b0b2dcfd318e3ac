// Captures: packets of running programs for a tool that writes them to a file. The daemon only passes on the
// order and the descriptor; programs send the packets themselves. Each user and each tool has at most one
// capture, which ends with the connection of the tool that requested it. Root's capture has priority over
// those of users while it runs.
#pragma once

#include <unordered_set>
#include <vector>

#include "base/owned_fd.h"
#include "control/capture_messages.h"
#include "daemon/client.h"
#include "daemon/server.h"
#include "daemon/shares/shares.h"
#include "daemon/subsystem.h"

namespace rrdma::daemon {

class Captures final : public Subsystem {
 public:
  // REQUIRES: the server outlives this. Added before the subsystem that gives out slots, so that a program
  // learns of a capture before it can send.
  explicit Captures(Server& server);

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;
  // Whether the program records its packets now, for a tool or into a file of its own.
  [[nodiscard]] bool is_recording(const Client& program) const;

 private:
  struct Running {
    std::uint64_t number;  // a tool may end one and start the next while programs are still told of the first
    Client* tool;
    control::PeerIdentity user;  // at the time of the request
    bool is_root;
    std::uint32_t pid;  // 0: all
    std::uint32_t snap_octets;
    OwnedFd socket;
  };

  void start(Client& client, control::Received& request, const control::StartCapture& wanted);
  // Answers the request that started a capture, once all programs were told.
  struct Started {
    std::uint64_t number;
    std::uint32_t serial;
    std::uint32_t pid;
    std::uint32_t recorded;
  };
  void answer_start(Client* tool, const Started& started);
  // Ends the capture of a tool, if it has one.
  void stop(const Client& tool);
  void stop(std::vector<Running>::iterator one);
  // Tells the program what to record; true if it records for the capture of that number from now on.
  bool order(Client& program, std::uint64_t number = 0);
  // Whether a capture of this user, or of root, records the program.
  [[nodiscard]] static bool may_watch(const control::PeerIdentity& user, bool is_root, const Client& program);
  // The capture that applies to the program; null: none.
  [[nodiscard]] const Running* capture_of(const Client& program) const;

  Server& server_;
  Shares shares_;                 // an account may have many users (control::account_of)
  std::vector<Running> running_;  // root's first
  std::uint64_t last_number_ = 0;
  std::unordered_set<const Client*> own_files_;  // programs that capture into files of their own
};

}  // namespace rrdma::daemon
