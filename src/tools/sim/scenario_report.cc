#include "tools/sim/scenario_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/result_try.h"
#include "tools/decode/packet_json.h"
#include "tools/sim/sim_faults.h"
#include "tools/suggestion.h"
#include "tools/text_layout.h"

namespace rrdma::tools {
namespace {

const std::vector<std::string> kScenarios = {"incast", "dumbbell", "lossy"};
constexpr std::uint32_t kFlowsMax = 255;
// The TCP flow needs some dozen losses to find its share.
constexpr std::int64_t kTcpTimes = 2;

double gigabits(std::uint64_t octets, Duration time) {
  return time.ns == 0 ? 0 : static_cast<double>(octets) * 8 / static_cast<double>(time.ns);
}

Duration counted(const sim::ScenarioPlan& plan) { return plan.time; }

}  // namespace

Result<sim::ScenarioPlan, std::string> scenario_plan(const SimOptions& options) {
  sim::ScenarioPlan plan;
  if (options.scenario == "incast") {
    plan.flows = 32;
  } else if (options.scenario == "dumbbell") {
    plan.stagger = microseconds(500);
  } else if (options.scenario == "lossy") {
    plan.flows = 1;
    plan.faults = *link::parse_fault_spec("drop=1%");
  } else {
    const std::string meant = closest_word(options.scenario, kScenarios);
    return Failure{"'" + options.scenario + "' is no scenario: known are incast, dumbbell and lossy" +
                   (meant.empty() ? "" : "; did you mean '" + meant + "'?")};
  }
  if (options.flows > kFlowsMax || options.tcp > kFlowsMax)
    return Failure{"--flows and --tcp are at most " + std::to_string(kFlowsMax)};
  if (options.flows != 0) plan.flows = options.flows;
  plan.tcp_flows = options.tcp;
  if (plan.tcp_flows != 0) {
    plan.settle = plan.settle * kTcpTimes;
    plan.time = plan.time * kTcpTimes;
  }
  const auto world = cable_of(options);
  RRDMA_TRY(world);
  if (world->megabits_per_second != 0) plan.megabits_per_second = world->megabits_per_second;
  if (world->rtt.ns != 0) plan.rtt = world->rtt;
  if (world->time.ns != 0) {
    plan.settle = world->time / 5;
    plan.time = world->time - plan.settle;
  }
  if (options.queue_given) plan.queue_octets = options.queue;
  if (!options.fault.empty()) {
    const auto faults = link::parse_fault_spec(options.fault);
    RRDMA_TRY(faults);
    plan.faults = *faults;
  }
  if (!options.faults.empty()) return Failure{std::string("a scenario has no --faults: write --fault")};
  const auto congestion = transport::parse_congestion_kind(options.congestion);
  if (!congestion)
    return Failure{"'" + options.congestion +
                   "' is no congestion control: known are auto, loss, swift, dcqcn, fixed and none"};
  plan.congestion = *congestion;
  plan.strangers = options.strangers;
  plan.strict = options.strict;
  plan.seed = options.seed;
  return plan;
}

std::string scenario_table(const SimOptions& options, const sim::ScenarioPlan& plan,
                           const sim::ScenarioReport& report, const wire::Palette& palette) {
  Table table({{"what", Align::kLeft, Column::kAlways, 0},
               {"value", Align::kRight, Column::kAlways, 0},
               {"", Align::kLeft, Column::kAlways, 0}});
  const auto row = [&](std::string what, std::string value, std::string note = "") {
    table.add({Cell(std::move(what)), Cell(std::move(value)), Cell(std::move(note))});
  };
  std::uint64_t ours = 0, tcp = 0, least = UINT64_MAX, most = 0;
  for (const auto& flow : report.flows) {
    (flow.tcp ? tcp : ours) += flow.octets;
    if (flow.tcp) continue;
    least = std::min(least, flow.octets);
    most = std::max(most, flow.octets);
  }
  row("scenario", options.scenario,
      formatted("{} flow{}{}", plan.flows, plan.flows == 1 ? "" : "s",
                plan.tcp_flows == 0 ? "" : formatted(" and {} of TCP", plan.tcp_flows)));
  row("goodput", formatted("{:.3f}", gigabits(ours, counted(plan))), "Gb/s of ours");
  if (plan.tcp_flows != 0)
    row("TCP beside it", formatted("{:.3f}", gigabits(tcp, counted(plan))),
        formatted("Gb/s, {:.1f} % of all", report.tcp_share * 100));
  row("utilisation", formatted("{:.3f}", report.utilisation), "of what the cable can carry");
  row("fairness", formatted("{:.3f}", report.fairness), "Jain's index; 1 is fair");
  row("slowest, fastest flow", formatted("{:.3f}", gigabits(least, counted(plan))),
      formatted("and {:.3f} Gb/s", gigabits(most, counted(plan))));
  row("queue, average", formatted("{:.0f}", static_cast<double>(report.queue_mean) / 1024), "KiB");
  row("queue, longest", formatted("{:.0f}", static_cast<double>(report.queue_most) / 1024),
      formatted("of {} KiB", plan.queue_octets / 1024));
  row("found it full", formatted("{}", report.queue_drops), "packets of ours");
  row("marked", formatted("{}", report.marks), "congestion experienced");
  row("packets sent", formatted("{}", report.packets));
  row("sent again", formatted("{}", report.resent),
      formatted("{} of them asked with a probe", report.probes));
  const std::string text = table.text(palette.name, palette.reset);
  const auto heading = text.find('\n');
  return heading == std::string::npos ? text : text.substr(heading + 1);
}

std::string scenario_json(const SimOptions& options, const sim::ScenarioPlan& plan,
                          const sim::ScenarioReport& report) {
  nlohmann::ordered_json object;
  object["scenario"] = options.scenario;
  object["congestion_control"] = options.congestion;
  object["utilisation"] = report.utilisation;
  object["fairness"] = report.fairness;
  object["tcp_share"] = report.tcp_share;
  object["queue_mean_octets"] = report.queue_mean;
  object["queue_most_octets"] = report.queue_most;
  object["queue_octets"] = plan.queue_octets;
  object["queue_drops"] = report.queue_drops;
  object["marks"] = report.marks;
  object["packets_sent"] = report.packets;
  object["packets_resent"] = report.resent;
  object["probes_sent"] = report.probes;
  auto flows = nlohmann::ordered_json::array();
  for (const auto& flow : report.flows)
    flows.push_back({{"tcp", flow.tcp}, {"goodput_gbps", gigabits(flow.octets, counted(plan))}});
  object["flows"] = flows;
  return json_line(object) + "\n";
}

// ---- the chart ----

namespace {

constexpr double kWidth = 760, kHeight = 220, kLeft = 70, kTop = 50, kBetween = 60;
constexpr std::array kColours = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb"};

std::string line(const std::vector<std::uint64_t>& values, double top, double most, std::string_view colour,
                 std::string_view more) {
  std::string points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = kLeft + kWidth * static_cast<double>(i) /
                                 static_cast<double>(std::max<std::size_t>(values.size() - 1, 1));
    const double y = top + kHeight * (1 - std::min(static_cast<double>(values[i]) / most, 1.0));
    points += formatted("{:.1f},{:.1f} ", x, y);
  }
  return formatted("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" {} points=\"{}\"/>\n", colour,
                   more, points);
}

std::string frame(double top, std::string_view heading, std::string_view highest) {
  return formatted(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#999\"/>\n"
      "<text x=\"{}\" y=\"{}\">{}</text>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n"
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">0</text>\n",
      kLeft, top, kWidth, kHeight, kLeft, top - 8, heading, kLeft - 6, top + 10, highest, kLeft - 6,
      top + kHeight);
}

}  // namespace

std::string scenario_svg(const SimOptions& options, const sim::ScenarioPlan& plan,
                         const sim::ScenarioReport& report) {
  const double slice_most =
      static_cast<double>(plan.megabits_per_second) / 8000 * static_cast<double>(report.slice.ns);
  const double second = kTop + kHeight + kBetween;
  std::string text = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{}\" y=\"20\" font-size=\"15\">{}: "
      "{} flows{}, {} Gb/s, "
      "{} µs; utilisation {:.2f}, fairness {:.2f}</text>\n",
      kLeft + kWidth + 20, second + kHeight + 40, kLeft, options.scenario, plan.flows,
      plan.tcp_flows == 0 ? "" : formatted(" and {} of TCP (dashed)", plan.tcp_flows),
      plan.megabits_per_second / 1000, plan.rtt.ns / 1000, report.utilisation, report.fairness);
  text += frame(kTop, "goodput of each flow", formatted("{} Gb/s", plan.megabits_per_second / 1000));
  for (std::size_t i = 0; i < report.flows.size(); ++i)
    text += line(report.flows[i].timeline, kTop, slice_most, kColours[i % kColours.size()],
                 report.flows[i].tcp ? "stroke-dasharray=\"5 3\"" : "");
  text += frame(second, "queue at the bottleneck", formatted("{} KiB", plan.queue_octets / 1024));
  text += line(report.queue, second, static_cast<double>(plan.queue_octets), kColours[0], "");
  text += formatted("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.0f} ms</text>\n</svg>\n", kLeft + kWidth,
                    second + kHeight + 16, static_cast<double>((plan.settle + plan.time).ns) / 1e6);
  return text;
}

}  // namespace rrdma::tools
