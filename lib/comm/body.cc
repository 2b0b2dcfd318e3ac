// Detects coroutines whose body the compiler dropped; see task.h.
#include "rrdma/comm/task.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {
thread_local bool body_expected = false;
}

void expect_body() noexcept { body_expected = true; }
void body_runs() noexcept { body_expected = false; }
void require_body() {
  if (body_expected) [[unlikely]]
    broken_contract(
        "a coroutine did not begin: its compiler (GCC 12.1 or 12.2, bug 106188) dropped its body, "
        "because it awaits in "
        "a condition and has no variable; write `const auto result = co_await ...; if (!result) ...`");
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
