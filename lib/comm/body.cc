// Functions of coroutines that are rarely called: for a frame that cannot be repaired (awaiting.h), and from
// programs that were built with version 0.2.
#include "rrdma/comm/awaiting.h"
#include "rrdma/comm/error.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

void frame_is_broken() noexcept {
  broken_contract(
      "a coroutine cannot run: its compiler (GCC 12.1 or 12.2, bug 106188) broke its frame, because it "
      "awaits in a condition, has no variable, and its result is aligned to more than 8 bytes; write "
      "`const auto result = co_await ...; if (!result) ...`");
}

// Programs of version 0.2 call these when a coroutine starts, and when its body runs.
RRDMA_COMM_API void expect_body() noexcept;
RRDMA_COMM_API void body_runs() noexcept;
void expect_body() noexcept {}
void body_runs() noexcept {}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
