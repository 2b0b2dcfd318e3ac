#include "lab/picture.h"

#include <algorithm>
#include <deque>

#include "base/format.h"

namespace rrdma::tools {
namespace {

constexpr int kColumn = 110, kRow = 120, kBoxWidth = 92, kBoxHeight = 40, kMargin = 30;

// The rows from the nodes farthest from the hosts down to the hosts.
std::vector<std::vector<std::size_t>> rows_of(const Topology& topology) {
  constexpr std::size_t kUnseen = std::string::npos;
  std::vector<std::size_t> depth(topology.nodes.size(), kUnseen);
  std::deque<std::size_t> waiting;
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    if (!topology.nodes[node].is_host) continue;
    depth[node] = 0;
    waiting.push_back(node);
  }
  while (!waiting.empty()) {
    const std::size_t node = waiting.front();
    waiting.pop_front();
    for (const LabLink& link : topology.links) {
      if (link.a != node && link.b != node) continue;
      const std::size_t other = link.a == node ? link.b : link.a;
      if (depth[other] != kUnseen) continue;
      depth[other] = depth[node] + 1;
      waiting.push_back(other);
    }
  }
  std::size_t deepest = 0;
  for (std::size_t& level : depth) {
    if (level == kUnseen) level = 1;
    deepest = std::max(deepest, level);
  }
  std::vector<std::vector<std::size_t>> rows(deepest + 1);
  for (std::size_t node = 0; node < depth.size(); ++node) rows[deepest - depth[node]].push_back(node);
  return rows;
}

}  // namespace

std::string terminal_picture(const Topology& topology, const std::set<std::size_t>& cut) {
  std::string text;
  for (const auto& row : rows_of(topology)) {
    text += "  ";
    for (const std::size_t node : row) text += formatted("[{}]  ", topology.nodes[node].name);
    text += "\n";
  }
  text += "\n";
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const LabLink& link = topology.links[i];
    text += formatted("  {:>8} {} {:<8} {:<15} {:<15} {}\n", topology.nodes[link.a].name,
                      cut.contains(i) ? "-x-" : "---", topology.nodes[link.b].name,
                      address_of(i, false, false), address_of(i, true, false), describe(link.shape));
  }
  return text;
}

std::string svg_picture(const Topology& topology, const std::set<std::size_t>& cut) {
  const auto rows = rows_of(topology);
  std::size_t widest = 1;
  for (const auto& row : rows) widest = std::max(widest, row.size());
  const int width = static_cast<int>(widest) * kColumn + 2 * kMargin;
  const int height = static_cast<int>(rows.size() - 1) * kRow + kBoxHeight + 2 * kMargin;
  struct Place {
    int x = 0, y = 0;
  };
  std::vector<Place> places(topology.nodes.size());
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const int step = (width - 2 * kMargin) / static_cast<int>(std::max<std::size_t>(rows[y].size(), 1));
    for (std::size_t x = 0; x < rows[y].size(); ++x)
      places[rows[y][x]] = {kMargin + step / 2 + static_cast<int>(x) * step,
                            kMargin + kBoxHeight / 2 + static_cast<int>(y) * kRow};
  }
  std::string svg = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"13\" "
      "text-anchor=\"middle\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, height);
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const Place a = places[topology.links[i].a], b = places[topology.links[i].b];
    svg += formatted(
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" "
        "stroke-width=\"2\"{}><title>{}</title></line>\n",
        a.x, a.y, b.x, b.y, cut.contains(i) ? "#c33" : "#789",
        cut.contains(i) ? " stroke-dasharray=\"6 6\"" : "", describe(topology.links[i].shape));
  }
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    const Place at = places[node];
    const LabNode& of = topology.nodes[node];
    svg += formatted(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" fill=\"{}\" stroke=\"#345\"/>\n",
        at.x - kBoxWidth / 2, at.y - kBoxHeight / 2, kBoxWidth, kBoxHeight, of.is_host ? 4 : 18,
        of.is_host ? "#e8f1fb" : "#f4efe0");
    svg += formatted("<text x=\"{}\" y=\"{}\">{}</text>\n", at.x, of.is_host ? at.y - 2 : at.y + 5, of.name);
    if (of.is_host)
      svg += formatted("<text x=\"{}\" y=\"{}\" font-size=\"10\">{}</text>\n", at.x, at.y + 13,
                       host_address(topology, node, false));
  }
  return svg + "</svg>\n";
}

}  // namespace rrdma::tools
