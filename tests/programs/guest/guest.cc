// Runs `guest CASE`; without arguments, lists the cases.
#include <cstdio>
#include <cstring>

#include "cases.h"
#include "verdict.h"

int main(int argc, char** argv) {
  for (const auto group : {guest::child_cases(), guest::clock_cases(), guest::descriptor_cases(),
                           guest::signal_cases(), guest::thread_cases(), guest::limit_cases(),
                           guest::ending_cases(), guest::network_cases(), guest::queue_pair_cases()}) {
    for (const guest::Case& one : group) {
      if (argc < 2) std::puts(one.name);
      if (argc < 2 || std::strcmp(one.name, argv[1]) != 0) continue;
      one.run();
      proof::say("fine");
      return 0;
    }
  }
  if (argc >= 2) proof::fail(std::string("no such case: ") + argv[1]);
  return 0;
}
