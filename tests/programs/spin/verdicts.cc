#include "verdicts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace spin {

int Verdicts::number(const char* call, int answer, Expect expect, std::initializer_list<int> allowed) {
  ++calls_;
  if (answer == 0) {
    if (expect == Expect::kRefusal) give_up(call, "succeeded with arguments that are wrong");
    return 0;
  }
  ++refusals_;
  if (answer == kNoErrno) give_up(call, "failed and left errno 0");
  const bool known = std::find(allowed.begin(), allowed.end(), answer) != allowed.end();
  if (!known)
    give_up(call, std::string("answered ") + std::strerror(answer) + ", which the manual does not have");
  if (expect == Expect::kSuccess)
    give_up(call, std::string("refused what is right: ") + std::strerror(answer));
  return answer;
}

int Verdicts::minus_one(const char* call, int answer, Expect expect, std::initializer_list<int> allowed) {
  if (answer != 0 && answer != -1)
    give_up(call, "answered " + std::to_string(answer) + ", and the manual says 0 or -1");
  return number(call, answer == 0 ? 0 : errno == 0 ? kNoErrno : errno, expect, allowed);
}

void Verdicts::require(const char* call, bool condition, const std::string& what) {
  ++calls_;
  if (!condition) give_up(call, what);
}

void Verdicts::give_up(const char* call, const std::string& what) const {
  std::fprintf(stderr, "spin: %s %s (--seed=%llu, thread %u, call %llu)\n", call, what.c_str(),
               static_cast<unsigned long long>(seed_), thread_, static_cast<unsigned long long>(calls_));
  ::_exit(1);
}

}  // namespace spin
