#include "tools/completion/candidates.h"

#include <dirent.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>

#include "faults/kinds.h"
#include "host/own_executable.h"
#include "tools/devices/local_devices.h"
#include "tools/explain/catalogue.h"
#include "tools/stat/observation.h"

namespace rrdma::tools {
namespace {

using Words = std::vector<std::string>;

std::vector<Candidate> plain(const Words& words) {
  std::vector<Candidate> made;
  for (const std::string& word : words) made.push_back({word, ""});
  return made;
}

std::vector<Candidate> interfaces() {
  Words names;
  if (DIR* folder = ::opendir("/sys/class/net")) {
    while (const dirent* entry = ::readdir(folder)) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    ::closedir(folder);
  }
  std::sort(names.begin(), names.end());
  return plain(names);
}

std::vector<Candidate> programs_now() {
  std::vector<Candidate> made;
  const auto seen = observe();
  if (!seen) return made;
  for (const auto& process : seen->processes)
    made.push_back({std::to_string(process.entry.pid), process.entry.program});
  return made;
}

std::vector<Candidate> devices_now() {
  std::vector<Candidate> made;
  const auto devices = read_local_devices("");
  if (!devices) return made;
  for (const LocalDevice& device : *devices)
    made.push_back({device.identity.name, device.identity.interface});
  return made;
}

std::vector<Candidate> codes() {
  std::vector<Candidate> made;
  for (const Topic* topic : all_topics()) {
    if (topic->name.find(' ') == std::string_view::npos)
      made.push_back({std::string(topic->name), std::string(topic->meaning.english)});
  }
  return made;
}

std::vector<Candidate> fault_kinds() {
  std::vector<Candidate> made;
  for (const faults::KindRow& row : faults::kind_rows()) made.push_back({std::string(row.word), ""});
  return made;
}

std::vector<Candidate> subcommands(const CLI::App& command) {
  std::vector<Candidate> made;
  for (const CLI::App* one : command.get_subcommands(nullptr)) {
    if (!one->get_group().empty()) made.push_back({one->get_name(), one->get_description()});
  }
  return made;
}

const CLI::App* subcommand_of(const CLI::App& command, const std::string& name) {
  for (const CLI::App* one : command.get_subcommands(nullptr)) {
    if (one->get_name() == name) return one;
  }
  return nullptr;
}

std::vector<Candidate> options(const CLI::App& command) {
  std::vector<Candidate> made;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      made.push_back({"--" + name, option->get_description()});
    for (const std::string& name : option->get_snames())
      made.push_back({"-" + name, option->get_description()});
  }
  return made;
}

// The values of an option. False: nothing is known about them.
bool values_of(const std::string& option, const std::string& command, Candidates& found) {
  static const std::map<std::string, Words> kFixed = {
      {"--link", {"auto", "shm", "udp"}},       {"--udp-checksum", {"auto", "zero"}},
      {"--log", {"error", "info", "debug"}},    {"--lang", {"en", "zh"}},
      {"--color", {"auto", "always", "never"}}, {"--cc", {"auto", "loss", "swift", "dcqcn", "fixed", "none"}},
      {"--direction", {"in", "out", "both"}},
  };
  static const Words kFiles = {"--pcap", "--plan", "--svg", "--secret-file", "--html", "--output", "-o"};
  if (const auto fixed = kFixed.find(option); fixed != kFixed.end()) {
    found.words = plain(fixed->second);
  } else if (option == "--netdev") {
    found.words = interfaces();
  } else if (option == "--pid" || option == "-p") {
    found.words = programs_now();
  } else if (command == "top" && (option == "--sort" || option == "-s")) {
    found.words = plain({"bytes", "messages", "resent", "rnr", "pid"});
  } else if (std::find(kFiles.begin(), kFiles.end(), option) != kFiles.end()) {
    found.files = true;
  } else {
    return false;
  }
  return true;
}

// The arguments that are not options. `path` is the command with its subcommands: "fault set".
void add_arguments(const std::string& path, const CLI::App& app, const CLI::App& command, Candidates& found) {
  const auto add = [&](std::vector<Candidate> more) {
    found.words.insert(found.words.end(), std::make_move_iterator(more.begin()),
                       std::make_move_iterator(more.end()));
  };
  if (path == "help") {
    add(subcommands(app));
  } else if (path == "explain") {
    add(codes());
  } else if (path == "gids") {
    add(devices_now());
  } else if (path == "fault set") {
    add(fault_kinds());
  } else if (path == "fault clear") {
    add(plain({"all"}));
  } else if (path == "lab up") {
    add(plain({"pair", "star", "ring", "dumbbell", "leaf-spine"}));
    found.files = true;
  } else if (path == "completion") {
    add(plain({"bash", "zsh", "fish"}));
  } else if (path == "decode") {
    add(plain({"qp=", "peer=", "op=", "psn=", "len>", "rkey=", "status=", "errors"}));
  }
  if (command.get_option_no_throw("FILE") != nullptr) found.files = true;
}

bool takes_value(const CLI::App& command, const std::string& word) {
  if (word.find('=') != std::string::npos) return false;
  const CLI::Option* option = command.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0;
}

// Other words must not reach the shell of words_of_help().
bool is_subcommand_name(const std::string& word) {
  return word.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos;
}

// `rrdma rpc` is a program of its own: its help is the only declaration of its words.
std::vector<Candidate> words_of_help(const std::string& command, bool wants_options) {
  std::vector<Candidate> made;
  const std::string own = host::own_executable();
  const std::unique_ptr<FILE, int (*)(FILE*)> help(
      ::popen(("'" + own + "' " + command + " --help 2>&1").c_str(), "r"), &::pclose);
  std::array<char, 512> line{};
  while (help != nullptr && std::fgets(line.data(), line.size(), help.get()) != nullptr) {
    const std::string text(line.data());
    if (!text.starts_with("  ") || text.size() < 3) continue;
    const std::size_t start = text.find_first_not_of(' ');
    const std::size_t end = text.find_first_of(" \n,", start);
    std::string word = text.substr(start, end - start);
    if (wants_options) {
      const std::size_t at = text.find("--");
      if (at == std::string::npos) continue;
      word = text.substr(at, text.find_first_of(" \n,=", at) - at);
      made.push_back({word, ""});
    } else if (start == 2 && word[0] >= 'a' && word[0] <= 'z') {
      made.push_back({word, ""});
    }
  }
  return made;
}

}  // namespace

Candidates candidates_for(const CLI::App& app, const std::vector<std::string>& words) {
  Candidates found;
  const CLI::App* command = &app;
  std::string path, awaiting;  // awaiting: the option before the current word that wants a value
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (!std::exchange(awaiting, "").empty()) continue;
    const bool runs = path == "run" || path == "lab exec" || path == "lab run";
    if (word == "--" && runs) {
      found.program_at = i + 1;
      return found;
    }
    if (word.starts_with('-')) {
      if (takes_value(*command, word)) awaiting = word;
      continue;
    }
    if (path == "run") {
      found.program_at = i;
      return found;
    }
    const CLI::App* next = subcommand_of(*command, word);
    if (next == nullptr && (path != "rpc" || !is_subcommand_name(word))) continue;
    if (next != nullptr) command = next;
    path += (path.empty() ? "" : " ") + word;
  }
  const std::string& current = words.back();
  if (!awaiting.empty() && values_of(awaiting, path, found)) {
    // nothing else fits
  } else if (path.starts_with("rpc")) {
    found.words = words_of_help(path, current.starts_with('-'));
  } else if (current.starts_with('-')) {
    found.words = options(*command);
  } else if (path == "run") {
    found.program_at = words.size() - 1;
    return found;
  } else {
    found.words = subcommands(*command);
    add_arguments(path, app, *command, found);
    if (path.empty()) {
      found.words.push_back({"--help", "Print the usage"});
      found.words.push_back({"--version", "Print the version"});
    }
  }
  std::erase_if(found.words, [&](const Candidate& one) { return !one.word.starts_with(current); });
  return found;
}

}  // namespace rrdma::tools
