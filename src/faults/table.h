// Table: the rules that hold in this process, how often each was looked at and how often it acted. Without rules nobody
// looks at it: armed() is one load, on the control path alone; what the data path does is exchanged while rules are armed
// (preload/verbs/injected_calls.h, link/fault_gate.h).
//
// Rules come from two sides: the environment, when the process begins, and the daemon, at any time. Each list is whole and
// replaces the one before from that side; a rule that is in both goes on counting.
//
// Threads: all calls from any thread; actors are called without the lock.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "faults/rule.h"

namespace rrdma::faults {

inline std::atomic<std::uint32_t> armed_kinds{0};  // a bit for each Kind of which a rule is active

[[nodiscard]] inline bool armed() { return armed_kinds.load(std::memory_order_relaxed) != 0; }
[[nodiscard]] inline bool armed(Kind kind) {
  return (armed_kinds.load(std::memory_order_relaxed) >> static_cast<unsigned>(kind) & 1u) != 0;
}

struct Injection {
  std::uint32_t number = 0;
  std::string text;
  std::uint64_t nth = 0;  // of what the rule counts
  int error = 0;          // as in the rule
  Duration delay;
};

// Whom rules reach: the lane's links, the devices, the objects of verbs.
class Actor {
 public:
  virtual ~Actor() = default;
  // The set of active rules is another one; `active` is all of it.
  virtual void handle_rules(const std::vector<Rule>& active) = 0;
  // A rule that acts by itself begins.
  virtual void act(const Rule& rule) { (void)rule; }
};

class Table {
 public:
  enum class Side : std::uint8_t { kEnvironment, kDaemon };

  // The one of this process.
  static Table& instance();

  // Rules for another process are left out.
  void set(Side side, const std::vector<Rule>& rules, std::uint32_t pid, Instant now);
  // Begins what is due and ends what is over.
  void advance(Instant now);
  [[nodiscard]] Instant next_deadline() const;

  // An actor hears of the rules that are active already. It lives for ever, or is removed.
  void add(Actor& actor);
  void remove(Actor& actor);

  // What befalls this call: a kVerb or kSlowVerb.
  [[nodiscard]] std::optional<Injection> consider_call(std::string_view function, std::string_view device);
  // What befalls this completion, that would be a success.
  [[nodiscard]] std::optional<Injection> consider_completion(std::string_view device, std::uint32_t qpn,
                                                             const wire::Gid& peer);
  // How long completions of the device are kept from the program; none: not at all.
  [[nodiscard]] std::optional<Duration> completion_delay(std::string_view device) const;
  [[nodiscard]] std::vector<Rule> active() const;
  [[nodiscard]] std::vector<Rule> rules() const;  // those whose time has not come, too

  // Called with one line of text for each injected fault, besides `rrdma explain`; may be empty. Returns when the one before
  // is not called any more.
  using Witness = std::function<void(const std::string& line)>;
  void set_witness(Witness witness);
  void tell_witness(const std::string& line);

 private:
  struct Entry {
    Side side;
    Rule rule;
    Instant from;
    Instant until;
    bool begun = false;
    bool over = false;
    std::uint64_t seen = 0;
  };
  template <typename Matches>
  std::optional<Injection> consider(Matches matches);
  [[nodiscard]] std::vector<Rule> active_locked() const;
  void publish(std::vector<Rule> begun);

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::mutex telling_;  // before mutex_ where both are taken
  std::vector<Actor*> actors_;
  std::mutex witness_mutex_;  // after telling_
  Witness witness_;
};

// A line for `rrdma explain`: which rule acted, and what it did.
void explain_injection(std::uint32_t number, std::string_view text, std::string_view sentence);

}  // namespace rrdma::faults
