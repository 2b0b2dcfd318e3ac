#include "tools/own_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/owned_fd.h"

extern char** environ;

namespace rrdma::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kOctetsMax = 65536;

// Reads until the other end is closed. Returns false after the timeout.
bool read_all(int descriptor, std::chrono::milliseconds timeout, std::string& text) {
  const auto end = Clock::now() + timeout;
  while (text.size() < kOctetsMax) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd source{descriptor, POLLIN, 0};
    if (left <= 0 || ::poll(&source, 1, static_cast<int>(left)) == 0) return false;
    char octets[4096];
    const ssize_t got = ::read(descriptor, octets, sizeof octets);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    text.append(octets, static_cast<std::size_t>(got));
  }
  return false;
}

// `output`, `errors`: -1 for none.
pid_t spawn(const char* file, std::vector<std::string> words, int output, int errors) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const auto& [source, descriptor] :
       {std::pair(output, STDOUT_FILENO), std::pair(errors, STDERR_FILENO)}) {
    if (source < 0) {
      posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions, source, descriptor);
    }
  }
  pid_t child = -1;
  const int error = posix_spawnp(&child, file, &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : -1;
}

constexpr const char* kOwnFile = "/proc/self/exe";

std::vector<std::string> own_words(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"rrdma"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

OwnCommandResult run(const char* file, const std::string& name, const std::vector<std::string>& words,
                     std::chrono::milliseconds timeout, bool with_errors) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {false, "no descriptors are left"};
  const OwnedFd reading(ends[0]);
  OwnedFd writing(ends[1]);
  const pid_t child = spawn(file, words, writing.get(), with_errors ? writing.get() : -1);
  writing.reset();
  if (child < 0) return {false, name + " cannot be started"};
  OwnCommandResult result;
  const bool whole = read_all(reading.get(), timeout, result.text);
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.done = whole && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!whole) result.text = name + " did not answer";
  return result;
}

}  // namespace

OwnCommandResult run_own_command(const std::vector<std::string>& words, std::chrono::milliseconds timeout) {
  const std::string name = "rrdma " + (words.empty() ? std::string() : words.front());
  return run(kOwnFile, name, own_words(words), timeout, true);
}

OwnCommandResult run_program(const std::vector<std::string>& words, std::chrono::milliseconds timeout) {
  return run(words.front().c_str(), words.front(), words, timeout, false);
}

pid_t start_own_command(const std::vector<std::string>& words) {
  return spawn(kOwnFile, own_words(words), -1, -1);
}

}  // namespace rrdma::tools
