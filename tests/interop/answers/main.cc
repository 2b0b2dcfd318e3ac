// probe DEVICE: all questions about verbs. probe route NAME SOURCE|- DESTINATION MILLISECONDS: one
// rdma_resolve_addr.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "probe.h"

int main(int count, char** words) {
  using namespace answers;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count == 6 && std::strcmp(words[1], "route") == 0)
    return ask_for_route(words[2], words[3], words[4], std::atoi(words[5]));
  if (count != 2) {
    std::fprintf(stderr, "usage: probe DEVICE | probe route NAME SOURCE|- DESTINATION MILLISECONDS\n");
    return 2;
  }
  for (const auto ask : {ask_about_posting, ask_about_operations, ask_about_errors, ask_about_memory,
                         ask_about_objects, ask_about_handles, ask_about_attributes}) {
    // A device of its own for each: what one of them breaks is gone with it.
    const Table table(words[1]);
    ask(table);
  }
  return 0;
}
