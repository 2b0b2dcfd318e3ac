// Reads topologies from TOML.
#include <unistd.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/format.h"
#include "lab/topology.h"

namespace rrdma::tools {
namespace {

struct Reader {
  const std::string& path;
  std::string problem;  // the first one

  void complain(const toml::node& node, const std::string& sentence) {
    if (problem.empty()) problem = formatted("{}:{}: {}", path, node.source().begin.line, sentence);
  }
};

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 15 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
}

// The text of a value, with or without quotation marks.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (const auto truth = node.value_exact<bool>()) return *truth ? "true" : "false";
  return std::nullopt;
}

void read_shape(Reader& reader, const toml::table& table, LinkShape& shape) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (name == "between") continue;
    const auto text = text_of(node);
    if (!text) {
      reader.complain(node, formatted("'{}' must be a text, a number, true or false.", name));
    } else if (auto set = set_property(shape, name, *text); !set) {
      reader.complain(node, set.error());
    }
  }
}

void read_nodes(Reader& reader, const toml::table& file, const char* kind, bool is_host, Topology& to) {
  const toml::array* list = file.get_as<toml::array>(kind);
  if (list == nullptr) return;
  for (const toml::node& node : *list) {
    const toml::table* table = node.as_table();
    const auto name = table != nullptr ? (*table)["name"].value<std::string>() : std::nullopt;
    if (!name || !is_name(*name)) {
      reader.complain(node, formatted("a {} needs a name of up to 15 letters, digits, - and _.", kind));
    } else if (to.find(*name) != std::string::npos) {
      reader.complain(node, formatted("there are two nodes '{}'.", *name));
    } else {
      to.nodes.push_back({*name, is_host});
    }
  }
}

void read_links(Reader& reader, const toml::table& file, const LinkShape& usual, Topology& to) {
  const toml::array* list = file.get_as<toml::array>("link");
  if (list == nullptr) return;
  for (const toml::node& node : *list) {
    const toml::table* table = node.as_table();
    const toml::array* ends = table != nullptr ? table->get_as<toml::array>("between") : nullptr;
    if (ends == nullptr || ends->size() != 2) {
      reader.complain(node, "a link needs its two ends: between = [\"h1\", \"s1\"].");
      continue;
    }
    LabLink link{.shape = usual};
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string name = ends->get(i)->value<std::string>().value_or("");
      const std::size_t found = to.find(name);
      if (found == std::string::npos) reader.complain(node, formatted("there is no node '{}'.", name));
      (i == 0 ? link.a : link.b) = found;
    }
    if (link.a == link.b) reader.complain(node, "a link has two different ends.");
    read_shape(reader, *table, link.shape);
    if (auto checked = check_shape(link.shape); !checked) reader.complain(node, checked.error());
    to.links.push_back(std::move(link));
  }
}

// Reports misspelt keys.
void check_keys(Reader& reader, const toml::table& file) {
  constexpr std::array<std::string_view, 8> kKeys = {"preset",   "hosts", "leaves", "spines",
                                                     "defaults", "host",  "switch", "link"};
  for (const auto& [key, node] : file) {
    const std::string name(key.str());
    if (std::find(kKeys.begin(), kKeys.end(), name) == kKeys.end())
      reader.complain(node,
                      formatted("'{}' is no word of a topology: known are {}.", name, joined(kKeys, ", ")));
    const bool is_number = name == "hosts" || name == "leaves" || name == "spines";
    if (is_number && !node.is_integer()) reader.complain(node, formatted("'{}' must be a number.", name));
    if (is_number && !file.contains("preset"))
      reader.complain(node, formatted("'{}' is of a preset, and there is none.", name));
    if (name == "preset" && !node.is_string()) reader.complain(node, "'preset' must be a text.");
    if (name == "defaults" && !node.is_table())
      reader.complain(node, "'defaults' must be a table: write [defaults].");
    if ((name == "host" || name == "switch" || name == "link") && !node.is_array())
      reader.complain(node, formatted("'{0}' must be tables: write [[{0}]].", name));
  }
}

}  // namespace

Result<Topology, std::string> read_topology(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0)
    return Failure{
        formatted("'{}' is neither a preset nor a file that can be read: {}.", path, std::strerror(errno))};
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return Failure{formatted("{}:{}: {}", path, error.source().begin.line, error.description())};
  }
  Reader reader{path, {}};
  check_keys(reader, file);
  LinkShape usual;
  if (const toml::table* defaults = file.get_as<toml::table>("defaults"))
    read_shape(reader, *defaults, usual);
  Topology topology;
  if (const auto preset = file["preset"].value<std::string>()) {
    const auto number = [&](const char* name, std::uint32_t otherwise) {
      return static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(file[name].value_or<std::int64_t>(otherwise), 0, 1000));
    };
    auto made = make_preset(
        *preset, {.hosts = number("hosts", 4), .leaves = number("leaves", 0), .spines = number("spines", 2)},
        usual);
    if (!made) return Failure{path + ": " + made.error()};
    topology = std::move(*made);
  }
  read_nodes(reader, file, "host", true, topology);
  read_nodes(reader, file, "switch", false, topology);
  read_links(reader, file, usual, topology);
  if (!reader.problem.empty()) return Failure{reader.problem};
  const auto hosts = std::count_if(topology.nodes.begin(), topology.nodes.end(),
                                   [](const LabNode& node) { return node.is_host; });
  if (hosts == 0) return Failure{path + " has no host: write [[host]] with a name, or a preset."};
  if (hosts > kLabHostsMax)
    return Failure{formatted("{} has {} hosts, and a lab at most {}.", path, hosts, kLabHostsMax)};
  return topology;
}

}  // namespace rrdma::tools
