#include "tools/fault/fault_plan.h"

#include <toml++/toml.h>
#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/result_try.h"
#include "faults/rule.h"

namespace rrdma::tools {
namespace {

constexpr std::array<std::string_view, 11> kSelectors = {
    "pid", "device", "qp", "peer", "direction", "nth", "every", "count", "after", "for", "seed"};

std::string place_of(const std::string& path, const toml::node& node) {
  return formatted("{}:{}", path, node.source().begin.line);
}

// Converts a number or a text to its form in a rule.
Result<std::string, std::string> rule_text(const std::string& path, const std::string& name,
                                           const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    if (text->find_first_of(" ;\n") == std::string::npos) return *text;
  } else if (const auto number = node.value_exact<std::int64_t>()) {
    return std::to_string(*number);
  }
  return Failure{
      formatted("{}: '{}' must be a number or a text without blanks.", place_of(path, node), name)};
}

Result<std::string, std::string> rule_of(const std::string& path, const toml::table& fault) {
  std::string line;
  if (const toml::node* what = fault.get("what")) {
    auto text = rule_text(path, "what", *what);
    if (!text) return text;
    line = *text;
  } else {
    return Failure{formatted("{}: a fault has no 'what'.", place_of(path, fault))};
  }
  for (const auto& [key, node] : fault) {
    const std::string name(key.str());
    if (name == "what") continue;
    if (std::find(kSelectors.begin(), kSelectors.end(), name) == kSelectors.end())
      return Failure{formatted("{}: '{}' is no selector of a fault.", place_of(path, node), name)};
    auto value = rule_text(path, name, node);
    if (!value) return value;
    line += formatted(" {}={}", name, *value);
  }
  if (auto parsed = faults::parse_rule(line); !parsed)
    return Failure{formatted("{}: {}", place_of(path, fault), parsed.error())};
  return line;
}

}  // namespace

Result<std::vector<std::string>, std::string> read_fault_plan(const std::string& path) {
  toml::table plan;
  try {
    plan = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return Failure{formatted("{}:{}: {}", path, error.source().begin.line, error.description())};
  }
  std::vector<std::string> lines;
  const toml::array* faults = plan.get_as<toml::array>("fault");
  if (faults == nullptr) return Failure{path + " has no [[fault]]."};
  for (const toml::node& node : *faults) {
    const toml::table* fault = node.as_table();
    if (fault == nullptr) return Failure{path + ": 'fault' must be tables: write [[fault]]."};
    auto line = rule_of(path, *fault);
    RRDMA_TRY(line);
    lines.push_back(std::move(*line));
  }
  return lines;
}

}  // namespace rrdma::tools
