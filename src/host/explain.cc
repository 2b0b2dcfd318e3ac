#include "host/explain.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/format.h"
#include "base/raw_syscall.h"
#include "host/explain_log.h"

namespace rrdma::host {
namespace {

int threshold() {
  static const int level = [] {
    const char* text = std::getenv("RRDMA_LOG");
    if (text == nullptr) return explain_log().is_in_file() ? -1 : 0;
    if (std::strcmp(text, "error") == 0) return 0;
    if (std::strcmp(text, "info") == 0) return 1;
    if (std::strcmp(text, "debug") == 0) return 2;
    return -1;
  }();
  return level;
}

bool is_power_of_ten(std::uint32_t value) {
  while (value >= 10 && value % 10 == 0) value /= 10;
  return value == 1;
}

}  // namespace

void write_quietly(int fd, std::string_view text) {
  sigset_t raised, before, pending;
  sigemptyset(&raised);
  sigaddset(&raised, SIGPIPE);
  sigaddset(&raised, SIGXFSZ);
  sigpending(&pending);
  if (pthread_sigmask(SIG_BLOCK, &raised, &before) != 0) return;
  const bool failed = raw::write(fd, text.data(), text.size()) < 0;
  const int signal = failed && errno == EPIPE ? SIGPIPE : failed && errno == EFBIG ? SIGXFSZ : 0;
  if (signal != 0 && sigismember(&pending, signal) == 0) {
    constexpr timespec kNow{};
    sigemptyset(&raised);
    sigaddset(&raised, signal);
    (void)sigtimedwait(&raised, nullptr, &kNow);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

namespace {

// Prints a repeated sentence at the 10th, 100th, … time.
void print(Severity severity, std::string_view call, std::string_view sentence, const Kept& kept) {
  if (static_cast<int>(severity) > threshold() || !is_power_of_ten(kept.times)) return;
  std::string line = formatted("rrdma[{}]: {}: {}", ::getpid(), call, sentence);
  if (kept.times > 1) line += formatted(" (for the {}th time)", kept.times);
  line += '\n';
  write_quietly(STDERR_FILENO, line);
}

}  // namespace

void explain(Severity severity, std::string_view call, std::string_view sentence) noexcept {
  const int saved = errno;
  print(severity, call, sentence, explain_log().append(severity, call, sentence));
  errno = saved;
}

void explain_call(Severity severity, std::string_view call, std::string_view sentence) noexcept {
  const int saved = errno;
  const Kept kept = explain_log().append(severity, call, sentence);
  if (kept.is_new()) explain_log().set_place(kept.handle, place_of_call());
  print(severity, call, sentence, kept);
  errno = saved;
}

ExplainHandle explain_failure(std::string_view call, std::string_view sentence, const ExplainFacts& facts,
                              const CallSite& posted) noexcept {
  const int saved = errno;
  const Kept kept = explain_log().append(Severity::kError, call, sentence, &facts);
  if (kept.is_new()) explain_log().set_place(kept.handle, place_of(posted));
  print(Severity::kError, call, sentence, kept);
  errno = saved;
  return kept.handle;
}

void explain_flushed(ExplainHandle handle, std::uint32_t sends, std::uint32_t receives) noexcept {
  explain_log().add_flushed(handle, sends, receives);
}

void explain_forgiven(std::string_view call) noexcept { explain_log().forgive(call); }

int fail(int error, std::string_view call, std::string_view sentence) noexcept {
  explain_call(Severity::kInfo, call, sentence);
  errno = error;
  return error;
}

int fail(const Problem& problem, std::string_view call) noexcept {
  explain_call(Severity::kError, call, problem.sentence);
  errno = problem.error;
  return problem.error;
}

int lacks(int error, std::string_view call, std::string_view sentence) noexcept {
  explain(Severity::kDebug, call, sentence);
  errno = error;
  return error;
}

}  // namespace rrdma::host
