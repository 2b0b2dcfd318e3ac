#include "tools/sim/sim_report.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "link/sim/sim_network.h"
#include "sim/recorder.h"
#include "tools/decode/packet_json.h"
#include "tools/text_layout.h"

namespace rrdma::tools {
namespace {

constexpr std::size_t kRecordedMax = 20'000;

double gigabits(const SimSummary& summary) {
  if (summary.virtual_ns == 0) return 0;
  return static_cast<double>(summary.totals.octets_moved) * 8.0 / static_cast<double>(summary.virtual_ns);
}

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::string time_text(Duration time) {
  const auto ns = static_cast<double>(time.ns);
  if (time.ns < 10'000) return formatted("{} ns", time.ns);
  if (time.ns < 1'000'000) return formatted("{:.1f} us", ns / 1e3);
  if (time.ns < 1'000'000'000) return formatted("{:.2f} ms", ns / 1e6);
  return formatted("{:.2f} s", ns / 1e9);
}

void SimSummary::add(sim::Exchange& exchange) {
  ++runs;
  log_hash = exchange.world().log_hash();
  const sim::Totals& one = exchange.totals();
  virtual_ns += one.end.ns;
  totals.messages_posted += one.messages_posted;
  totals.messages_succeeded += one.messages_succeeded;
  totals.messages_failed += one.messages_failed;
  totals.octets_moved += one.octets_moved;
  totals.latency.merge(one.latency);
  coverage.add(exchange.coverage());
}

std::string summary_table(const SimOptions& options, const SimSummary& summary,
                          const wire::Palette& palette) {
  const transport::Counters& engine = summary.coverage.engine;
  Table table({{"", Align::kLeft}, {"", Align::kRight}, {"", Align::kLeft}});
  const auto row = [&table](std::string name, std::string value, std::string note = "") {
    table.add({std::move(name), std::move(value), std::move(note)});
  };
  row("messages", formatted("{}", summary.totals.messages_succeeded),
      summary.totals.messages_failed == 0
          ? ""
          : formatted("and {} failed, as they had to", summary.totals.messages_failed));
  if (!options.random()) row("goodput", formatted("{:.3f}", gigabits(summary)), "Gb/s");
  row("packets sent", formatted("{}", engine.packets_sent));
  row("retransmitted", formatted("{}", engine.packets_resent),
      formatted("{:.3f} %", percent(engine.packets_resent, engine.packets_sent)));
  row("sequence NAKs", formatted("{}", engine.sequence_naks_received));
  row("RNR NAKs", formatted("{}", engine.rnr_naks_received));
  row("other NAKs", formatted("{}", engine.fatal_naks_received));
  row("implied NAKs", formatted("{}", engine.implied_naks));
  row("ack timeouts", formatted("{}", engine.ack_timeouts),
      engine.early_retransmits == 0 ? ""
                                    : formatted("and {} early retransmissions", engine.early_retransmits));
  row("duplicates seen", formatted("{}", engine.duplicates));
  for (const std::uint32_t per_mille : {500u, 900u, 990u, 999u, 1000u}) {
    const std::string name =
        per_mille == 1000 ? "latency, slowest" : formatted("latency, {} %", per_mille / 10.0);
    row(name, time_text(summary.totals.latency.percentile(per_mille)));
  }
  for (std::size_t i = 0; i < link::kFateCount; ++i) {
    const auto fate = static_cast<link::Fate>(i);
    if (summary.coverage.fates[i] == 0 || fate == link::Fate::kDelivered || fate == link::Fate::kNoRoom ||
        fate == link::Fate::kDelayed)
      continue;
    row(formatted("network: {}", link::describe(fate)), formatted("{}", summary.coverage.fates[i]));
  }
  row("virtual time", time_text(nanoseconds(summary.virtual_ns)),
      summary.runs == 1 ? formatted("event log {:016x}", summary.log_hash)
                        : formatted("in {} runs", summary.runs));
  std::string text = table.text(palette.name, palette.reset);
  const auto heading = text.find('\n');
  return heading == std::string::npos ? text : text.substr(heading + 1);  // the columns are self-explanatory
}

std::string summary_json(const SimOptions& options, const SimSummary& summary, bool complete) {
  nlohmann::ordered_json object;
  object["complete"] = complete;
  object["runs"] = summary.runs;
  object["first_seed"] = options.seed;
  object["virtual_ns"] = summary.virtual_ns;
  object["messages"] = summary.totals.messages_succeeded;
  object["messages_failed"] = summary.totals.messages_failed;
  object["octets"] = summary.totals.octets_moved;
  object["goodput_gbps"] = gigabits(summary);
  nlohmann::ordered_json latency;
  for (const std::uint32_t per_mille : {500u, 900u, 990u, 999u, 1000u}) {
    latency[formatted("p{}", per_mille / 10.0)] = summary.totals.latency.percentile(per_mille).ns;
  }
  object["latency_ns"] = latency;
  nlohmann::ordered_json counters;
  for (const auto& name : transport::kCounterNames)
    counters[std::string(name.name)] = summary.coverage.engine.*name.member;
  object["counters"] = counters;
  nlohmann::ordered_json network;
  for (std::size_t i = 0; i < link::kFateCount; ++i) {
    network[std::string(link::describe(static_cast<link::Fate>(i)))] = summary.coverage.fates[i];
  }
  object["network"] = network;
  if (summary.runs == 1) object["event_log"] = formatted("{:016x}", summary.log_hash);
  return json_line(object) + "\n";
}

std::string violation_story(const sim::Plan& plan, const SimOptions& options, bool& saved) {
  sim::Exchange exchange(plan);
  sim::Recorder recorder(kRecordedMax);
  exchange.world().add_observer(recorder);
  exchange.run();
  const auto& promise = exchange.world().violation();
  std::string text = formatted(
      "seed {}: {}\nat {} of virtual time\n\nthe last packets:\n{}\nthe queue pairs:\n{}", plan.seed,
      promise ? *promise : std::string("(it did not happen again: that is a second bug)"),
      time_text(exchange.world().now() - Instant{}), recorder.trace(options.trace), exchange.standing());
  if (options.pcap.empty()) return text;
  const auto octets = recorder.pcapng();
  std::ofstream file(options.pcap, std::ios::binary);
  file.write(reinterpret_cast<const char*>(octets.data()), static_cast<std::streamsize>(octets.size()));
  file.close();
  saved = file.good();
  return text;
}

}  // namespace rrdma::tools
