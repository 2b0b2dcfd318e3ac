// The JSON form of `rrdma stat`.
#include <nlohmann/json.hpp>

#include "tools/stat/stat_report.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

// Current fill levels; null if the program does not publish them.
nlohmann::ordered_json levels_json(const control::QpLevels& levels) {
  if (levels.send_capacity == 0 && levels.receive_capacity == 0) return nullptr;
  return {{"send_queued", levels.send_queued},
          {"send_capacity", levels.send_capacity},
          {"receive_posted", levels.receive_posted},
          {"receive_capacity", levels.receive_capacity},
          {"oldest_psn", levels.oldest_psn},
          {"next_psn", levels.next_psn},
          {"under_way", levels.under_way},
          {"window", levels.window},
          {"expected_psn", levels.expected_psn},
          {"round_trip_ns", levels.round_trip_ns},
          {"completions_waiting", levels.completions_waiting},
          {"send_cq", levels.send_cq},
          {"receive_cq", levels.receive_cq}};
}

nlohmann::ordered_json counters_json(const std::vector<control::NamedCounter>& counters) {
  auto json = nlohmann::ordered_json::object();
  for (const control::NamedCounter& counter : counters) json[counter.name] = counter.value;
  return json;
}

nlohmann::ordered_json queue_pair_json(const ObservedProcess& process, const control::QpSnapshot& qp) {
  nlohmann::ordered_json json = {
      {"qpn", qp.fields.qpn},
      {"device", process.device_of(qp.fields)},
      {"type", qp_type_name(qp.fields.type)},
      {"state", qp_state_name(qp.fields.state)},
      {"link", qp_link_name(qp.fields.link)},
      {"path_mtu", qp.fields.path_mtu_code == 0 ? 0 : 128u << qp.fields.path_mtu_code},
      {"local", wire::to_text(qp.fields.local_gid)},
      {"peer_qpn", qp.fields.peer_qpn},
      {"peer", wire::to_text(qp.fields.peer_gid)}};
  for (std::size_t i = 0; i < kQpCounterNames.size(); ++i)
    json[std::string(kQpCounterNames[i])] = qp.counters[i];
  json["levels"] = levels_json(qp.levels);
  return json;
}

nlohmann::ordered_json daemon_json(const control::Status& daemon) {
  return {{"pid", daemon.daemon_pid},
          {"uid", daemon.daemon_uid},
          {"version", daemon.version},
          {"is_system", daemon.is_system},
          {"uptime_ms", daemon.uptime_ms},
          {"slots_held", daemon.slots_held},
          {"ipv4", (daemon.network.families & control::kFamilyV4) != 0},
          {"ipv6", (daemon.network.families & control::kFamilyV6) != 0},
          {"reason", daemon.network.reason},
          {"remedy", daemon.network.remedy},
          {"counters", counters_json(daemon.counters)}};
}

}  // namespace

std::string stat_json(const Observation& now, const StatChoice& choice, bool one_line) {
  auto processes = nlohmann::ordered_json::array();
  for (const ObservedProcess& process : now.processes) {
    auto queue_pairs = nlohmann::ordered_json::array();
    for (const control::QpSnapshot& qp : process.queue_pairs)
      queue_pairs.push_back(queue_pair_json(process, qp));
    processes.push_back({{"pid", process.entry.pid},
                         {"uid", process.entry.uid},
                         {"program", process.entry.program},
                         {"devices", process.entry.devices},
                         {"age_ms", process.entry.age_ms},
                         {"counters", counters_json(process.counters)},
                         {"queue_pairs", queue_pairs}});
  }
  auto addresses = nlohmann::ordered_json::array();
  for (const Carried& one : carried_by_address(now)) {
    nlohmann::ordered_json carried = {{"address", wire::to_text(one.address)},
                                      {"queue_pairs", one.queue_pairs}};
    for (std::size_t i = 0; i < kQpCounterNames.size(); ++i)
      carried[std::string(kQpCounterNames[i])] = one.counters[i];
    addresses.push_back(std::move(carried));
  }
  auto devices = nlohmann::ordered_json::array();
  for (const control::DeviceEntry& device : now.devices) {
    devices.push_back({{"device", device.name},
                       {"programs", device.programs},
                       {"counters", counters_json(device.counters)}});
  }
  auto others = nlohmann::ordered_json::array();
  for (const uid_t uid : now.other_users) others.push_back({{"uid", uid}});
  nlohmann::ordered_json json = {{"daemon", now.daemon ? daemon_json(*now.daemon) : nlohmann::ordered_json()},
                                 {"processes", processes},
                                 {"devices", devices},
                                 {"addresses", addresses},
                                 {"other_daemons", others}};
  if (!choice.device.empty()) {
    json["device"] = {{"device", choice.device}, {"counters", nlohmann::ordered_json::object()}};
    if (!devices.empty()) json["device"] = devices.front();
  }
  return json.dump(one_line ? -1 : 2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace rrdma::tools
