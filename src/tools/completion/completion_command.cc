// `rrdma completion SHELL`: prints the script that completes the command in bash, zsh or fish. The scripts
// ask `rrdma complete-words`, which is not listed in the help: candidates.h finds the words.
#include <CLI/CLI.hpp>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>

#include "tools/commands.h"
#include "tools/completion/candidates.h"
#include "tools/completion/scripts.h"
#include "tools/exit_status.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma completion";
constexpr const char* kAsk = "complete-words";

int print_script(const std::string& shell) {
  static const std::map<std::string, const char*> kScripts = {
      {"bash", kBashScript}, {"zsh", kZshScript}, {"fish", kFishScript}};
  const auto script = kScripts.find(shell);
  if (script == kScripts.end())
    return complain(kName, "there is no completion for '" + printable(shell) + "'",
                    "bash, zsh and fish have one");
  std::cout << script->second;
  return kExitSuccess;
}

// The words of the command line that is completed, which CLI11 must not parse.
std::vector<std::string>& words_so_far() {
  static std::vector<std::string> words;
  return words;
}

void take_words(std::vector<char*>& arguments) {
  if (arguments.size() < 3 || std::strcmp(arguments[1], kAsk) != 0) return;
  const bool separated = std::strcmp(arguments[2], "--") == 0;
  words_so_far().assign(arguments.begin() + (separated ? 3 : 2), arguments.end());
  arguments.resize(2);
}

int print_words(const CLI::App& app, const std::vector<std::string>& words) {
  const Candidates found = candidates_for(app, words.empty() ? std::vector<std::string>{""} : words);
  for (const Candidate& one : found.words) std::cout << one.word << '\t' << one.meaning << '\n';
  if (found.files) std::cout << ":files\n";
  if (found.program_at != 0) std::cout << ":program " << found.program_at << '\n';
  return kExitSuccess;
}

}  // namespace

void add_completion_command(CLI::App& app, Runner& chosen) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      add_command(app, "completion", kAskingForHelp, "Print the completion script of a shell",
                  "source <(rrdma completion bash)\nrrdma completion fish | source");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  completion->footer("Exit status: 0, or 2 on failure.");
  completion->callback([&chosen, shell] { chosen = [shell] { return print_script(*shell); }; });

  CLI::App* ask = app.add_subcommand(kAsk, "Print the words that can stand next");
  ask->group("");  // for the scripts only
  argument_hooks().push_back(take_words);
  ask->callback([&app, &chosen] { chosen = [&app] { return print_words(app, words_so_far()); }; });
}

}  // namespace rrdma::tools
