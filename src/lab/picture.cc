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

std::string rate_text(std::uint64_t bits) {
  constexpr std::pair<std::uint64_t, const char*> kUnits[] = {
      {1'000'000'000, "G"}, {1'000'000, "M"}, {1'000, "k"}};
  for (const auto& [unit, letter] : kUnits) {
    if (bits >= unit)
      return formatted("{:.3g}{}", static_cast<double>(bits) / static_cast<double>(unit), letter);
  }
  return std::to_string(bits);
}

// The links as trees from the topmost nodes down. Each link is drawn once, at the upper of its ends. A node
// that was drawn before has only its name.
class TreePicture {
 public:
  TreePicture(const Topology& topology, const std::set<std::size_t>& cut,
              const std::vector<LinkTraffic>& traffic)
      : topology_(topology),
        cut_(cut),
        traffic_(traffic),
        drawn_(topology.links.size()),
        seen_(topology.nodes.size()),
        rank_(topology.nodes.size()) {}

  std::string text() {
    const auto rows = rows_of(topology_);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (const std::size_t node : rows[row]) rank_[node] = row;
    }
    for (const auto& row : rows) {
      for (const std::size_t node : row) {
        if (seen_[node]) continue;
        lines_.push_back({formatted("  {}", topology_.nodes[node].name), ""});
        draw_below(node, "  ");
      }
    }
    std::size_t width = 0;
    for (const Line& line : lines_) width = std::max(width, columns_of(line.tree));
    std::string all;
    for (const Line& line : lines_) {
      all += line.tree;
      if (!line.facts.empty()) all += std::string(width - columns_of(line.tree) + 2, ' ') + line.facts;
      all += "\n";
    }
    return all;
  }

 private:
  struct Line {
    std::string tree;
    std::string facts;
  };

  // Continuation bytes of UTF-8 take no column.
  static std::size_t columns_of(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  }

  // The links of a node that are not drawn yet and lead down or to a node of the same row.
  std::vector<std::size_t> links_of(std::size_t node) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < topology_.links.size(); ++i) {
      const LabLink& link = topology_.links[i];
      if (drawn_[i] || (link.a != node && link.b != node)) continue;
      if (rank_[link.a == node ? link.b : link.a] >= rank_[node]) found.push_back(i);
    }
    return found;
  }

  void draw_below(std::size_t node, const std::string& indent) {
    seen_[node] = true;
    const std::vector<std::size_t> below = links_of(node);
    for (const std::size_t link : below) drawn_[link] = true;
    for (std::size_t i = 0; i < below.size(); ++i) {
      const bool last = i + 1 == below.size();
      const LabLink& link = topology_.links[below[i]];
      const std::size_t other = link.a == node ? link.b : link.a;
      lines_.push_back({formatted("{}{}{} {}", indent, last ? "└" : "├",
                                  cut_.contains(below[i]) ? "-x-" : "──", topology_.nodes[other].name),
                        facts_of(below[i], node)});
      if (!seen_[other] && rank_[other] > rank_[node]) draw_below(other, indent + (last ? "   " : "│  "));
    }
  }

  std::string facts_of(std::size_t link, std::size_t upper) const {
    const bool a_is_upper = topology_.links[link].a == upper;
    std::string text =
        formatted("{:<11} {:<11}", address_of(link, !a_is_upper, false), address_of(link, a_is_upper, false));
    if (const std::string shape = describe(topology_.links[link].shape); !shape.empty()) text += " " + shape;
    if (cut_.contains(link)) return text + "  cut";
    if (traffic_.empty()) return text;
    const LinkTraffic& of = traffic_[link];
    text += formatted("  {} {}", direction_text("down", a_is_upper ? of.from_a : of.from_b, link),
                      direction_text("up", a_is_upper ? of.from_b : of.from_a, link));
    const std::uint64_t dropped = of.from_a.dropped + of.from_b.dropped;
    if (dropped != 0) text += formatted(" dropped {}", dropped);
    return text;
  }

  // "down 9.4G (94 %)"; the share needs a rate.
  std::string direction_text(const char* name, const DirectionTraffic& of, std::size_t link) const {
    const std::uint64_t rate = topology_.links[link].shape.rate_kbps * 1000;
    if (rate == 0) return formatted("{} {}", name, rate_text(of.bits_per_second));
    return formatted("{} {} ({} %)", name, rate_text(of.bits_per_second), of.bits_per_second * 100 / rate);
  }

  const Topology& topology_;
  const std::set<std::size_t>& cut_;
  const std::vector<LinkTraffic>& traffic_;
  std::vector<bool> drawn_;
  std::vector<bool> seen_;
  std::vector<std::size_t> rank_;  // the row, from the top
  std::vector<Line> lines_;
};

}  // namespace

std::string terminal_picture(const Topology& topology, const std::set<std::size_t>& cut,
                             const std::vector<LinkTraffic>& traffic) {
  return TreePicture(topology, cut, traffic).text();
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
