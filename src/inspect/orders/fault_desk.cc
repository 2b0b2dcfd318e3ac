#include "inspect/orders/fault_desk.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/own_command.h"

namespace rrdma::tools {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kFaultTimeout = 3s;
constexpr auto kListInterval = 1s;
constexpr std::size_t kWordsMax = 16;

// Runs `rrdma fault ARGUMENTS`.
OwnCommandResult run_fault(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "fault");
  return run_own_command(arguments, kFaultTimeout);
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
  const OwnCommandResult said =
      order.arguments.empty() ? OwnCommandResult{false, order.reason} : run_fault(order.arguments);
  listed_at_ = {};
  const nlohmann::ordered_json json = {{"done", said.done}, {"text", said.text}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

const std::string& FaultDesk::list() {
  const auto now = Clock::now();
  if (listed_at_ != Clock::time_point{} && now - listed_at_ < kListInterval) return list_;
  listed_at_ = now;
  const OwnCommandResult said = run_fault({"list", "--json"});
  // Without programs there is no daemon, and without a daemon there are no faults.
  const auto list =
      said.done ? nlohmann::ordered_json::parse(said.text, nullptr, false) : nlohmann::ordered_json();
  list_ =
      list.is_array() ? list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) : "[]";
  return list_;
}

}  // namespace rrdma::tools
