// Topologies from TOML.
#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>

#include "tools/lab/topology.h"

namespace rrdma::tools {
namespace {

struct Reader {
  const std::string& path;
  std::string problem;  // the first one

  void complain(const toml::node& node, const std::string& sentence) {
    if (problem.empty()) problem = fmt::format("{}:{}: {}", path, node.source().begin.line, sentence);
  }
};

// Words go to tc as they are: nothing but letters, digits, '.' and '%'.
bool is_measure(const std::string& text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '%';
         });
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 15 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
}

void read_shape(Reader& reader, const toml::table& table, LinkShape& shape) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (name == "between") continue;
    if (name == "rate" || name == "delay" || name == "loss") {
      const auto text = node.value<std::string>();
      if (!text || !is_measure(*text)) {
        reader.complain(
            node, fmt::format("'{}' must be a measure such as \"10gbit\", \"20us\" or \"0.1%\".", name));
        continue;
      }
      (name == "rate" ? shape.rate : name == "delay" ? shape.delay : shape.loss) = *text;
    } else if (name == "queue" || name == "mtu") {
      const auto number = node.value<std::int64_t>();
      if (!number || *number < 1 || *number > 65535) {
        reader.complain(node, fmt::format("'{}' must be a number from 1 to 65535.", name));
        continue;
      }
      (name == "queue" ? shape.queue : shape.mtu) = static_cast<std::uint32_t>(*number);
    } else if (name == "ecn") {
      shape.ecn = node.value<bool>().value_or(false);
    } else {
      reader.complain(
          node, fmt::format("'{}' is no property of a link: known are rate, delay, loss, queue, ecn and mtu.",
                            name));
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
      reader.complain(node, fmt::format("a {} needs a name of up to 15 letters, digits, - and _.", kind));
    } else if (to.find(*name) != std::string::npos) {
      reader.complain(node, fmt::format("there are two nodes '{}'.", *name));
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
      if (found == std::string::npos) reader.complain(node, fmt::format("there is no node '{}'.", name));
      (i == 0 ? link.a : link.b) = found;
    }
    if (link.a == link.b) reader.complain(node, "a link has two different ends.");
    read_shape(reader, *table, link.shape);
    to.links.push_back(std::move(link));
  }
}

}  // namespace

Result<Topology, std::string> read_topology(const std::string& path) {
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return Failure{fmt::format("{}:{}: {}", path, error.source().begin.line, error.description())};
  }
  Reader reader{path, {}};
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
    return Failure{fmt::format("{} has {} hosts, and a lab at most {}.", path, hosts, kLabHostsMax)};
  return topology;
}

}  // namespace rrdma::tools
