// The explain channel: every refused call, every failed work request and every rejected connection records a
// sentence here. The most recent ones are kept for `rrdma explain`, also after the process has ended.
// RRDMA_LOG=error|info|debug prints them to stderr. Errors that could not be recorded (no descriptor, no
// space) are printed unless RRDMA_LOG is set and empty. Repeated sentences are counted, not stored twice.
#pragma once

#include <string>
#include <string_view>

#include "base/call_site.h"
#include "base/problem.h"
#include "host/explain_facts.h"

namespace rrdma::host {

enum class Severity : unsigned char { kError, kInfo, kDebug };
inline constexpr std::size_t kSeverities = 3;

// Identifies a recorded sentence; 0: nothing was recorded.
using ExplainHandle = std::uint64_t;

// `call` names the entry point ("ibv_modify_qp"). `sentence` says what was wrong, the value and the permitted
// values. Preserves errno. Any thread; never throws.
void explain(Severity severity, std::string_view call, std::string_view sentence) noexcept;
// The same for a call of the program that this thread executes: also records the place of the call.
void explain_call(Severity severity, std::string_view call, std::string_view sentence) noexcept;

// Records an error with facts. Errors within a second that differ only in queue pair, addresses and sizes are
// merged: a peer that dies fails all its connections at once. `posted`: where the request was posted.
ExplainHandle explain_failure(std::string_view call, std::string_view sentence, const ExplainFacts& facts,
                              const CallSite& posted = {}) noexcept;
// Adds the number of requests that were flushed after this failure.
void explain_flushed(ExplainHandle handle, std::uint32_t sends, std::uint32_t receives) noexcept;

// The call has succeeded since, so the earlier refusals were the program's probing, not a mistake. Lowers the
// infos about this call to kDebug.
void explain_forgiven(std::string_view call) noexcept;

// Writes without delivering SIGPIPE (a pipe without a reader) or SIGXFSZ (a file at its size limit) to the
// program.
void write_quietly(int fd, std::string_view text);

// Sets errno, explains at kInfo, returns `error`: return fail(EINVAL, "ibv_create_cq", "...").
int fail(int error, std::string_view call, std::string_view sentence) noexcept;
// The same at kError: the request was correct, but the environment does not permit it.
int fail(const Problem& problem, std::string_view call) noexcept;
// The same at kDebug: for calls by which programs probe for a feature.
int lacks(int error, std::string_view call, std::string_view sentence) noexcept;

}  // namespace rrdma::host
