#include "verdict.h"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace proof {

void fail(const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s[%d]: %s\n", program_invocation_short_name, static_cast<int>(::getpid()),
               what.c_str());
  std::fflush(stderr);
  ::_exit(1);
}

void fail_errno(const std::string& what) { fail(what + ": " + std::strerror(errno)); }

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

double monotonic_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double cpu_seconds() {
  timespec spent{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

}  // namespace proof
