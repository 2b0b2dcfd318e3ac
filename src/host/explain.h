// The explain channel: every refused call and every failed completion leaves one sentence here. The last
// ones are kept for `rrdma explain` (also after the process has ended); RRDMA_LOG=error|info|debug prints
// them to stderr.
#pragma once

#include <string>
#include <string_view>

namespace rrdma::host {

enum class Severity : unsigned char { kError, kInfo, kDebug };

// `call` names the entry point ("ibv_modify_qp"), `sentence` says what was wrong, what it was and what it may be.
// Does not change errno. Any thread; never throws.
void explain(Severity severity, std::string_view call, std::string_view sentence) noexcept;

// Sets errno, explains at kInfo, returns `error`: return fail(EINVAL, "ibv_create_cq", "...").
int fail(int error, std::string_view call, std::string_view sentence) noexcept;

}  // namespace rrdma::host
