#include "lib/comm/wakes.h"

#include <exception>
#include <string>

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {
List<Wake>& waiting_wakes() {
  thread_local List<Wake> list;
  return list;
}
}  // namespace

constinit thread_local bool wakes_waiting = false;

void wake_later(Wake& wake) noexcept {
  waiting_wakes().push_back(&wake);
  wakes_waiting = true;
}

void resume_wakes() {
  wakes_waiting = false;
  // A resumed coroutine may add others; the next turn resumes those.
  List<Wake> now;
  now.splice(waiting_wakes());
  while (Wake* wake = now.pop_front()) wake->waiter.resume();
}

void exception_lost(const std::exception_ptr& exception) noexcept {
  std::string what = "a Scope ended without join() after one of its tasks had failed: ";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& thrown) {
    what += thrown.what();
  } catch (...) {
    what += "it threw no std::exception";
  }
  broken_contract(what.c_str());
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
