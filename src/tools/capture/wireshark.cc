#include "tools/capture/wireshark.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

extern char** environ;

namespace rrdma::tools {
namespace {

// Wireshark shows a dialog and does not start if the given profile does not exist.
bool has_profile() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  const std::string personal =
      config != nullptr ? config : std::string(home != nullptr ? home : "") + "/.config";
  std::error_code ignored;
  for (const std::string& folder : {personal, std::string("/usr/share"), std::string("/usr/local/share")}) {
    if (std::filesystem::is_directory(folder + "/wireshark/profiles/RRDMA", ignored)) return true;
  }
  return false;
}

}  // namespace

Result<OwnedFd, std::string> start_wireshark() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Failure{std::string(std::strerror(errno))};
  const OwnedFd reading(ends[0]);
  OwnedFd writing(ends[1]);
  std::vector<std::string> words = {"wireshark", "-k", "-i", "-"};
  if (has_profile()) words.insert(words.end(), {"-C", "RRDMA"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, reading.get(), STDIN_FILENO);
  pid_t child = -1;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT)
    return Failure{std::string("there is no wireshark: install it, or capture into a file")};
  if (error != 0) return Failure{std::string("wireshark cannot be started: ") + std::strerror(error)};
  std::signal(SIGPIPE, SIG_IGN);
  return writing;
}

}  // namespace rrdma::tools
