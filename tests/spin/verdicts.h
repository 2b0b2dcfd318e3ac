// What a call may answer. Every call of the spin goes through one of these, which ends the program with the
// seed and the number of the call when the answer is none that the manual allows.
#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace spin {

// What the caller knows of its arguments.
enum class Expect : std::uint8_t {
  kEither,   // depends on what happened before
  kSuccess,  // nothing is wrong with them
  kRefusal,  // something is
};

class Verdicts {
 public:
  Verdicts(std::uint64_t seed, unsigned thread) : seed_(seed), thread_(thread) {}

  // For calls that answer 0 or an errno.
  int number(const char* call, int answer, Expect expect, std::initializer_list<int> allowed);
  // For calls that answer 0 or -1 with errno set. 0 or the errno.
  int minus_one(const char* call, int answer, Expect expect, std::initializer_list<int> allowed);
  // For calls that answer an object or null with errno set. REQUIRES: errno was 0 before.
  template <typename Object>
  Object* object(const char* call, Object* answer, Expect expect, std::initializer_list<int> allowed) {
    number(call, answer != nullptr ? 0 : errno == 0 ? kNoErrno : errno, expect, allowed);
    return answer;
  }
  // Anything else that must hold.
  void require(const char* call, bool condition, const std::string& what);

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t refusals() const { return refusals_; }

 private:
  static constexpr int kNoErrno = -1;
  [[noreturn]] void give_up(const char* call, const std::string& what) const;

  const std::uint64_t seed_;
  const unsigned thread_;
  std::uint64_t calls_ = 0;
  std::uint64_t refusals_ = 0;
};

}  // namespace spin
