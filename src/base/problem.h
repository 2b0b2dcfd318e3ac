// Problem: the reason why a control operation failed. It holds an errno for the C boundary and one sentence
// that says what happened and what to do about it.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace rrdma {

struct Problem {
  int error = 0;
  std::string sentence;
};

[[nodiscard]] inline Failure<Problem> problem(int error, std::string sentence) {
  return {Problem{error, std::move(sentence)}};
}

}  // namespace rrdma
