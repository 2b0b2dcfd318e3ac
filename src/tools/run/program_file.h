// What a program on disk is, as far as loading a library into it goes: found on the PATH as a shell would,
// scripts followed to their interpreter, ELF headers read.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rrdma::tools {

struct ProgramFile {
  std::string path;            // what is executed
  std::string loaded;          // the ELF file behind it: the same, or a script's interpreter
  bool other_machine = false;  // of another architecture or word size
  bool static_linked = false;
  bool musl = false;
  bool gains_privilege = false;         // setuid, setgid or file capabilities: the loader ignores LD_PRELOAD
  std::vector<std::string> sanitizers;  // shared runtimes that insist on being loaded first
};

struct ProgramProblem {
  int exit_status = 127;  // 127: not found; 126: found but not executable
  std::string sentence;
};

// `name` with a slash is a path; without, it is looked up on $PATH.
Result<ProgramFile, ProgramProblem> inspect_program(const std::string& name);

}  // namespace rrdma::tools
