// The allowed results of a call. Every call of the spin goes through one of these functions. If the manual
// does not allow the result, it ends the program with the seed and the number of the call.
#pragma once

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace spin {

// The caller's knowledge about its arguments.
enum class Expect : std::uint8_t {
  kEither,   // depends on earlier calls
  kSuccess,  // all of them are valid
  kRefusal,  // at least one is invalid
};

class Verdicts {
 public:
  Verdicts(std::uint64_t seed, unsigned thread) : seed_(seed), thread_(thread) {}

  // For calls that return 0 or an errno.
  int number(const char* call, int answer, Expect expect, std::initializer_list<int> allowed);
  // For calls that return 0, or -1 with errno set. Returns 0 or the errno.
  int minus_one(const char* call, int answer, Expect expect, std::initializer_list<int> allowed);
  // For calls that return an object, or null with errno set. REQUIRES: errno was 0 before.
  template <typename Object>
  Object* object(const char* call, Object* answer, Expect expect, std::initializer_list<int> allowed) {
    number(call, answer != nullptr ? 0 : errno == 0 ? kNoErrno : errno, expect, allowed);
    return answer;
  }
  // Any other condition that must hold.
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
