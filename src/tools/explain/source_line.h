// The source line of a place in a program's code (host/calls/code_place.h). addr2line resolves it if it is
// installed and the program has debug information.
#pragma once

#include <cstdint>
#include <string>

#include "host/explain_log.h"
#include "tools/explain/topic.h"

namespace rrdma::tools {

struct SourceLine {
  std::string module;         // empty: unknown
  std::uint64_t address = 0;  // in the module, as objdump and nm show it
  std::string function;       // empty: unknown
  std::string line;           // "server.c:120"; empty: unknown
};

[[nodiscard]] SourceLine source_line_of(const host::Explained& said);

// "Called at server.c:120 (connect_peer)." or "Called at /usr/bin/server+0x1234."; empty if unknown.
[[nodiscard]] std::string source_line_text(const host::Explained& said, Language language);

}  // namespace rrdma::tools
