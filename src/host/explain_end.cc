#include "host/explain_end.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/format.h"
#include "base/raw_syscall.h"

namespace rrdma::host {
namespace {

constexpr std::size_t kHeadlineMax = 240;

// Standard error as it was when the first sentence was recorded. A program may reuse the descriptor.
struct StandardError {
  dev_t device = 0;
  ino_t inode = 0;
  pid_t pid = 0;
};
StandardError at_start;  // NOLINT: the handler has no argument

bool look_at_standard_error(StandardError& seen) {
  struct stat status {};
  if (::fstat(STDERR_FILENO, &status) != 0) return false;
  seen = {status.st_dev, status.st_ino, raw::getpid()};
  return true;
}

void tell() {
  StandardError now;
  if (!look_at_standard_error(now)) return;
  if (now.device != at_start.device || now.inode != at_start.inode || now.pid != at_start.pid) return;
  const std::string line = end_line(read_explained(static_cast<std::uint32_t>(now.pid)));
  if (!line.empty()) write_quietly(STDERR_FILENO, "rrdma: " + line + "\n");
}

struct Tally {
  std::uint64_t requests = 0;                // that failed here
  std::uint64_t calls = 0;                   // that were refused
  std::uint64_t connections = 0;             // that were rejected
  std::uint64_t of_peers = 0;                // requests of peers that were refused here
  std::uint64_t peers = 0;                   // that were killed
  const Explained* first_failure = nullptr;  // of this program
  const Explained* first_of_peers = nullptr;
  const Explained* last_call = nullptr;
};

Tally tally_of(const ExplainedProcess& process) {
  Tally tally;
  for (const Explained& said : process.sentences) {  // errors before infos, each newest first
    if (said.severity == Severity::kDebug || said.call.starts_with("fault ")) continue;
    switch (said.facts.kind) {
      case ExplainFacts::kSend:
      case ExplainFacts::kReceive: tally.requests += said.times; break;
      case ExplainFacts::kRejected: tally.connections += said.times; break;
      case ExplainFacts::kRefused: tally.of_peers += said.times; break;
      default: (said.call == kPeerCall ? tally.peers : tally.calls) += said.times; break;
    }
    if (said.facts.kind != ExplainFacts::kNone) {
      (said.facts.kind == ExplainFacts::kRefused ? tally.first_of_peers : tally.first_failure) = &said;
    } else if (tally.last_call == nullptr || said.last_ns > tally.last_call->last_ns) {
      tally.last_call = &said;
    }
  }
  return tally;
}

void add_count(std::string& text, std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == 0) return;
  text += formatted("{}{} {}", text.empty() ? "" : ", ", count, count == 1 ? one : many);
}

// The first clause of a failure, whose sentence goes on with numbers; the first sentence of anything else.
std::string headline(const Explained& said) {
  const std::string_view whole = said.sentence;
  const std::string_view text =
      whole.substr(0, whole.find(said.facts.kind == ExplainFacts::kNone ? ". " : "; "));
  const std::string_view clause = text.substr(0, text.find(". "));
  std::string line = formatted("{}: {}", said.call, clause);
  if (line.size() > kHeadlineMax) return line.substr(0, kHeadlineMax) + "…";
  while (!line.empty() && line.back() == '.') line.pop_back();
  return line;
}

}  // namespace

std::string end_line(const ExplainedProcess& process) {
  const Tally tally = tally_of(process);
  std::string counts;
  add_count(counts, tally.requests, "request failed", "requests failed");
  add_count(counts, tally.calls, "call refused", "calls refused");
  add_count(counts, tally.connections, "connection rejected", "connections rejected");
  add_count(counts, tally.of_peers, "request of a peer refused", "requests of peers refused");
  add_count(counts, tally.peers, "peer killed", "peers killed");
  if (counts.empty()) return "";
  const Explained& chosen = tally.first_failure != nullptr ? *tally.first_failure
                            : tally.last_call != nullptr   ? *tally.last_call
                                                           : *tally.first_of_peers;
  return formatted("{}: {}. See `rrdma explain --pid {}`.", counts, headline(chosen), process.pid);
}

void tell_at_end() {
  const char* wanted = std::getenv("RRDMA_EXPLAIN");
  const std::string_view when = wanted == nullptr ? "" : wanted;
  const bool tells = when == "always" || (when == "terminal" && ::isatty(STDERR_FILENO) == 1);
  if (tells && look_at_standard_error(at_start)) std::atexit(tell);
}

}  // namespace rrdma::host
