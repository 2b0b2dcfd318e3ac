// Table: the rules of this process, with the number of candidates and injections of each. It costs nothing
// without rules: armed() is one load, and only on the control path. The data path is replaced while rules are
// armed (preload/verbs/injected_calls.h, link/fault_gate.h).
//
// Rules come from two sources: the environment, when the process starts, and the daemon, at any time. Each
// list is complete and replaces the previous one from that source; a rule that is in both lists keeps its
// counts.
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

inline std::atomic<std::uint32_t> armed_kinds{0};  // one bit for each Kind with an active rule

[[nodiscard]] inline bool armed() { return armed_kinds.load(std::memory_order_relaxed) != 0; }
[[nodiscard]] inline bool armed(Kind kind) {
  return (armed_kinds.load(std::memory_order_relaxed) >> static_cast<unsigned>(kind) & 1u) != 0;
}

struct Injection {
  std::uint32_t number = 0;
  std::string text;
  std::uint64_t nth = 0;  // the number of the candidate
  int error = 0;          // as in the rule
  Duration delay;
};

// Targets of rules: the lane's links, the devices, the verbs objects.
class Actor {
 public:
  virtual ~Actor() = default;
  // The set of active rules has changed; `active` is the whole set.
  virtual void handle_rules(const std::vector<Rule>& active) = 0;
  // A rule that acts at a point in time begins.
  virtual void act(const Rule& rule) { (void)rule; }
};

class Table {
 public:
  enum class Side : std::uint8_t { kEnvironment, kDaemon };

  // The table of this process.
  static Table& instance();

  // Ignores rules for other processes.
  void set(Side side, const std::vector<Rule>& rules, std::uint32_t pid, Instant now);
  // Starts rules that are due and ends rules whose time is over.
  void advance(Instant now);
  [[nodiscard]] Instant next_deadline() const;

  // The actor is told of the rules that are already active. It must live forever or be removed.
  void add(Actor& actor);
  void remove(Actor& actor);

  // The fault for this call, if any: kVerb or kSlowVerb.
  [[nodiscard]] std::optional<Injection> consider_call(std::string_view function, std::string_view device);
  // The fault for this completion, if any. REQUIRES: it would be a success.
  [[nodiscard]] std::optional<Injection> consider_completion(std::string_view device, std::uint32_t qpn,
                                                             const wire::Gid& peer);
  // How long completions of the device are withheld from the program; empty: not at all.
  [[nodiscard]] std::optional<Duration> completion_delay(std::string_view device) const;
  [[nodiscard]] std::vector<Rule> active() const;
  [[nodiscard]] std::vector<Rule> rules() const;  // including those that are not due yet

  // Called with one line of text for each injected fault, in addition to `rrdma explain`; may be empty.
  // Returns once the previous witness can no longer be called.
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
  std::mutex telling_;  // lock order: before mutex_
  std::vector<Actor*> actors_;
  std::mutex witness_mutex_;  // lock order: after telling_
  Witness witness_;
};

// Records for `rrdma explain` which rule acted and what it did.
void explain_injection(std::uint32_t number, std::string_view text, std::string_view sentence);

}  // namespace rrdma::faults
