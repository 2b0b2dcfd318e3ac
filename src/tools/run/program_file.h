// Examines a program for preloading: searches the PATH as a shell does, follows a script to its interpreter,
// and reads the ELF headers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rrdma::tools {

struct ProgramFile {
  std::string path;            // the file to execute
  std::string loaded;          // the ELF file: the same, or a script's interpreter
  bool other_machine = false;  // another architecture or word size
  bool static_linked = false;
  bool musl = false;
  bool gains_privilege = false;         // setuid, setgid or file capabilities: the loader ignores LD_PRELOAD
  std::vector<std::string> sanitizers;  // shared runtimes that must be loaded first
};

struct ProgramProblem {
  int exit_status = 127;  // 127: not found; 126: found but not executable
  std::string sentence;
};

// `name` is a path if it contains a slash. Otherwise it is searched on $PATH.
Result<ProgramFile, ProgramProblem> inspect_program(const std::string& name);

}  // namespace rrdma::tools
