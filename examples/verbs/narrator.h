// Narrator: prints each step with its number on one line. A server with several clients uses a narrator with
// a name for each.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace examples {

class Narrator {
 public:
  // Continues counting after `steps`.
  explicit Narrator(std::string name = {}, unsigned steps = 0) : name_(std::move(name)), steps_(steps) {}

  [[nodiscard]] unsigned steps() const { return steps_; }

  // "[client 1]  4. Protection domain"
  [[gnu::format(printf, 2, 3)]] void step(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(std::to_string(++steps_) + ". ", format, arguments);
    va_end(arguments);
  }
  // A line that belongs to the last step.
  [[gnu::format(printf, 2, 3)]] void detail(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("    ", format, arguments);
    va_end(arguments);
  }

 private:
  [[gnu::format(printf, 3, 0)]] void say(const std::string& head, const char* format, va_list arguments) {
    char text[512];
    std::vsnprintf(text, sizeof text, format, arguments);
    std::printf("%s%4s%s\n", name_.c_str(), head.c_str(), text);
    std::fflush(stdout);
  }

  std::string name_;
  unsigned steps_;
};

// Ends the program: reports that `what` failed with this errno.
[[noreturn]] inline void fail(const std::string& what, int error) {
  char reason[128];
  std::fprintf(stderr, "%s: %s\n", what.c_str(), strerror_r(error, reason, sizeof reason));
  std::exit(1);
}

[[noreturn]] inline void fail(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(1);
}

}  // namespace examples
