// The explain channel: every refused call, every failed work request and every rejected connection leaves a
// sentence here. The last ones are kept for `rrdma explain` (also after the process has ended);
// RRDMA_LOG=error|info|debug prints them to stderr. Errors that could not be kept (no descriptor left, no room) are
// printed unless RRDMA_LOG is there and empty. What is said again is counted, not kept twice.
#pragma once

#include <string>
#include <string_view>

#include "base/problem.h"
#include "host/explain_facts.h"

namespace rrdma::host {

enum class Severity : unsigned char { kError, kInfo, kDebug };
inline constexpr std::size_t kSeverities = 3;

// Names a sentence that was said; 0: nothing was kept.
using ExplainHandle = std::uint64_t;

// `call` names the entry point ("ibv_modify_qp"), `sentence` says what was wrong, what it was and what it may be.
// Does not change errno. Any thread; never throws.
void explain(Severity severity, std::string_view call, std::string_view sentence) noexcept;

// The same with facts, an error. Those that only differ in queue pair, addresses and sizes, and come within a
// second, are one: a peer that dies fails all its connections at once.
ExplainHandle explain_failure(std::string_view call, std::string_view sentence,
                              const ExplainFacts& facts) noexcept;
// So many requests were flushed behind it.
void explain_flushed(ExplainHandle handle, std::uint32_t sends, std::uint32_t receives) noexcept;

// The call has succeeded meanwhile: what was refused before it was a program that felt its way, no mistake.
// Infos about it are for debuggers from now on.
void explain_forgiven(std::string_view call) noexcept;

// Sets errno, explains at kInfo, returns `error`: return fail(EINVAL, "ibv_create_cq", "...").
int fail(int error, std::string_view call, std::string_view sentence) noexcept;
// The same at kError: what the program asked for was right, and its surroundings do not allow it.
int fail(const Problem& problem, std::string_view call) noexcept;
// The same at kDebug: for what programs ask only to learn whether it is there.
int lacks(int error, std::string_view call, std::string_view sentence) noexcept;

}  // namespace rrdma::host
