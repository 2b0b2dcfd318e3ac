// Checks whether librrdma.so.1 can be loaded into a program, and suggests a remedy.
#include "tools/doctor/finding.h"
#include "tools/run/program_file.h"

namespace rrdma::tools {

Finding check_program(const std::string& name) {
  const std::string subject = "program";
  const auto program = inspect_program(name);
  if (!program)
    return {Health::kBad, subject, program.error().sentence, "name a program that can be executed"};
  const std::string& file = program->loaded;
  if (program->other_machine)
    return {Health::kBad, subject, file + " is built for another architecture",
            "use an RRDMA of its architecture"};
  if (program->static_linked) {
    return {Health::kBad, subject, file + " is statically linked: no library can be loaded into it",
            "link it dynamically against libibverbs"};
  }
  if (program->musl)
    return {Health::kBad, subject, file + " is linked against musl, RRDMA against glibc",
            "build it on a system with glibc"};
  if (program->gains_privilege) {
    return {Health::kBad, subject,
            file + " is setuid, setgid or has file capabilities: the loader ignores preloaded libraries",
            "run a copy without these rights: cp " + file + " ./"};
  }
  std::string more;
  for (const std::string& runtime : program->sanitizers) more += ", " + runtime + " is loaded first";
  return {.subject = subject, .sentence = file + " can be run with `rrdma run`" + more};
}

}  // namespace rrdma::tools
