#include "inspect/fault_desk.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/owned_fd.h"

extern char** environ;

namespace rrdma::tools {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kFaultTimeout = 3s;
constexpr auto kListInterval = 1s;
constexpr std::size_t kWordsMax = 16, kOctetsMax = 65536;

struct Said {
  bool done = false;
  std::string text;
};

// Reads until the other end is closed. Returns false after a timeout.
bool read_all(int descriptor, std::string& text) {
  const auto end = Clock::now() + kFaultTimeout;
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

// Runs `rrdma fault ARGUMENTS`, with the executable of this process.
Said run_fault(const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {false, "no descriptors are left"};
  const OwnedFd reading(ends[0]);
  OwnedFd writing(ends[1]);
  std::vector<std::string> words = {"rrdma", "fault"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
  pid_t child = -1;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  writing.reset();
  if (error != 0) return {false, "rrdma fault cannot be started"};
  Said said;
  const bool whole = read_all(reading.get(), said.text);
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  said.done = whole && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!whole) said.text = "rrdma fault did not answer";
  return said;
}

}  // namespace

FaultOrder fault_order(std::string_view words) {
  std::istringstream stream{std::string(words)};
  FaultOrder order;
  for (std::string word; stream >> word;) {
    const bool plain = std::all_of(word.begin(), word.end(), [](char c) { return c > ' ' && c < 0x7f; });
    if (word.front() == '-' || !plain) return {{}, "options and signs are not taken from a page"};
    order.arguments.push_back(std::move(word));
  }
  if (order.arguments.size() < 2 || order.arguments.size() > kWordsMax ||
      (order.arguments[0] != "set" && order.arguments[0] != "clear"))
    return {{}, "a fault is set or cleared: set port=down for=2s, clear 1"};
  return order;
}

std::string FaultDesk::order(std::string_view words) {
  const FaultOrder order = fault_order(words);
  const Said said = order.arguments.empty() ? Said{false, order.reason} : run_fault(order.arguments);
  listed_at_ = {};
  const nlohmann::ordered_json json = {{"done", said.done}, {"text", said.text}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

const std::string& FaultDesk::list() {
  const auto now = Clock::now();
  if (listed_at_ != Clock::time_point{} && now - listed_at_ < kListInterval) return list_;
  listed_at_ = now;
  const Said said = run_fault({"list", "--json"});
  // Without programs there is no daemon, and without a daemon there are no faults.
  const auto list =
      said.done ? nlohmann::ordered_json::parse(said.text, nullptr, false) : nlohmann::ordered_json();
  list_ =
      list.is_array() ? list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) : "[]";
  return list_;
}

}  // namespace rrdma::tools
