// FaultRules: the fault rules that tools have set (control/fault_messages.h), for current and future programs
// of their own user. The daemon passes them on, and injects those for the connection manager itself. Rules
// live as long as the daemon; a rule for a process ends with that process. Each user of a system daemon has a
// share of the rules, and changes of its rules are sent only to its programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "control/fault_messages.h"
#include "daemon/client.h"
#include "daemon/server.h"
#include "daemon/shares/shares.h"
#include "daemon/subsystem.h"
#include "faults/rule.h"
#include "wire/cm_mad.h"

namespace rrdma::daemon {

class FaultRules final : public Subsystem {
 public:
  // REQUIRES: the server outlives this. Added before the subsystem that gives out slots, so that a program
  // learns of its faults before it can do anything.
  explicit FaultRules(Server& server);

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;

  // Whether to drop this message of the connection manager; if `reason` is not 0, answers with that REJ
  // instead. The programs that it concerns are told.
  struct CmInjection {
    bool lost = false;
    std::uint16_t reason = 0;
  };
  [[nodiscard]] bool may_strike_mads() const { return !rules_.empty(); }
  // How long a connection of this program (null: already gone) with this peer stays in TIMEWAIT, if a rule
  // says so.
  [[nodiscard]] std::optional<Duration> timewait(Client* program, const wire::Gid& remote, Instant now);
  [[nodiscard]] CmInjection inject(wire::CmAttribute attribute, const wire::Gid& remote,
                                   const std::vector<Client*>& concerned, Instant now);

 private:
  struct Kept {
    faults::Rule rule;
    control::PeerIdentity owner;
    uid_t account = 0;  // charged for it
    bool is_roots;      // for all users
    Instant from;
    Instant until;
    std::uint64_t seen = 0;
    std::uint32_t injected = 0;
    std::uint64_t set_ns = 0;  // wall clock
  };
  void set(Client& client, const control::Received& request, const control::SetFault& wanted);
  void list(Client& client, const control::Received& request);
  void clear(Client& client, const control::Received& request, std::uint32_t number);
  [[nodiscard]] static bool may_strike(const Kept& kept, const Client& program);
  // Drops the rules for which `ends` is true, and returns them.
  std::vector<Kept> remove(const std::function<bool(const Kept&)>& ends);
  // Counts one more match of the rule, and says whether the rule acts. Without a number it acts on each
  // match, because the other end would only retransmit the message.
  [[nodiscard]] static bool counts(Kept& kept);
  static void tell(const Kept& kept, const std::vector<Client*>& programs, const std::string& deed);
  // Sends the program its rules; false if none applies to it, or the message cannot be delivered.
  bool order(Client& program);
  // Sends its rules to each program that one of the changed rules concerns, then calls `end` with the client
  // (null: gone) and the number of programs to which a rule applies.
  void order_concerned(Client& client, std::vector<Kept> changed,
                       std::function<void(Client*, std::uint32_t)> end);
  // Whether the client's user may change rules now; answers it if not.
  [[nodiscard]] bool may_change(Client& client, const control::Received& request);

  Server& server_;
  Shares shares_;
  std::vector<Kept> rules_;
  std::uint32_t last_number_ = 0;
};

}  // namespace rrdma::daemon
