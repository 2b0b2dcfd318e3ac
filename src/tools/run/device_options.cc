#include "tools/run/device_options.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "faults/rule.h"
#include "host/device_plan.h"
#include "link/capture_sink.h"
#include "link/fault_spec.h"
#include "tools/fault/fault_plan.h"
#include "tools/run/library_file.h"
#include "tools/suggestion.h"

namespace rrdma::tools {
namespace {

const std::vector<std::string> kCongestionNames = {"auto", "loss", "swift", "dcqcn", "fixed", "none"};

std::string_view present_preload() {
  const char* value = std::getenv("LD_PRELOAD");
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// Colons or blanks separate the entries.
std::vector<std::string> foreign_entries(std::string_view list) {
  const std::array<std::string, 2> own = {find_library(kDeviceLibrary), find_library(kMemoryLibrary)};
  const auto is_foreign = [&](const std::string& name) {
    return !name.empty() && std::find(own.begin(), own.end(), name) == own.end();
  };
  std::vector<std::string> entries;
  std::string entry;
  for (const char c : list) {
    if (c != ':' && c != ' ') {
      entry += c;
      continue;
    }
    if (is_foreign(entry)) entries.push_back(entry);
    entry.clear();
  }
  if (is_foreign(entry)) entries.push_back(entry);
  return entries;
}

std::string with_separator(const std::vector<std::string>& entries, char between = ':') {
  std::string list;
  for (const std::string& entry : entries)
    list += (list.empty() ? std::string() : std::string(1, between)) + entry;
  return list;
}

std::string plan_text(const DeviceSettings& settings) {
  if (settings.devices == 0 && settings.properties.empty()) return "";
  std::string text = std::to_string(settings.devices);
  for (const std::string& device : settings.properties) text += ";" + device;
  return text;
}

// Replaces the names of fault plans by their rules. A word with an equals sign (or freeze) is a rule, any
// other the name of a plan.
Result<void, OptionProblem> read_faults(DeviceSettings& settings) {
  std::vector<std::string> rules;
  for (const std::string& word : settings.faults) {
    if (word.find('=') == std::string::npos && word != "freeze" && !word.starts_with("freeze ")) {
      auto plan = read_fault_plan(word);
      if (!plan) return Failure{OptionProblem{"--faults: " + plan.error(), ""}};
      rules.insert(rules.end(), plan->begin(), plan->end());
      continue;
    }
    if (auto rule = faults::parse_rule(word); !rule)
      return Failure{OptionProblem{"--faults: " + rule.error(), ""}};
    rules.push_back(word);
  }
  settings.faults = std::move(rules);
  return {};
}

std::string joined_rules(const DeviceSettings& settings) {
  std::string text;
  for (const std::string& rule : settings.faults) text += (text.empty() ? "" : ";") + rule;
  return text;
}

// REQUIRES: settle() succeeded.
std::string limits_text(const DeviceSettings& settings) {
  const auto limits = limits_of(settings.capture_limits);
  return limits ? link::emit_capture_limits(*limits) : "";
}

Result<void, OptionProblem> check_congestion(const DeviceSettings& settings) {
  const auto& names = kCongestionNames;
  if (settings.congestion.empty() ||
      std::find(names.begin(), names.end(), settings.congestion) != names.end())
    return {};
  const std::string meant = closest_word(settings.congestion, names);
  return Failure{OptionProblem{"--cc: there is no congestion control '" + settings.congestion +
                                   "'; known are auto, loss, swift, dcqcn, fixed and none",
                               meant.empty() ? "" : "did you mean '" + meant + "'?"}};
}

void add_several_options(CLI::App& command, DeviceSettings& settings) {
  command
      .add_option("--devices", settings.devices,
                  "Provide N devices, rrdma0 to rrdmaN-1, each with its own address")
      ->option_text("N")
      ->check(CLI::Range(1u, host::kDevicesMax));
  command
      .add_option(
          "--device", settings.properties,
          "Set properties of a device, such as 'rrdma1:speed=200G,numa=1,pci=0000:81:00.0'; repeatable")
      ->option_text("DEVICE:PROPERTY=VALUE,...")
      ->allow_extra_args(false);
  command.add_flag("--private", settings.private_network,
                   "Use a new network namespace, where each device has an IPv4 and an IPv6 address on lo");
}

}  // namespace

void add_device_options(CLI::App& command, DeviceSettings& settings) {
  command
      .add_option("--netdev", settings.netdev,
                  "Network interface of the device (default: that of the default route, else lo)")
      ->option_text("IF");
  add_several_options(command, settings);
  command.add_option("--link", settings.link, "Path between programs on this host (default: auto)")
      ->option_text("auto|shm|udp")
      ->check(CLI::IsMember({"auto", "shm", "udp"}));
  command
      .add_option("--fault", settings.fault,
                  "Inject packet faults, such as 'drop=1%,dup=0.1%,delay=50us,seed=7'")
      ->option_text("SPEC");
  command
      .add_option(
          "--faults", settings.faults,
          "Inject faults: a plan (a TOML file), or one fault such as 'verb=ibv_reg_mr:ENOMEM'; repeatable")
      ->option_text("PLAN|FAULT")
      ->allow_extra_args(false);
  command.add_flag("--append", settings.append, "Keep the packets that the file of --pcap holds already");
  command.add_option("--pcap", settings.capture, "Write every packet to this file (pcapng)")
      ->option_text("FILE");
  add_limit_options(command, settings.capture_limits);
  command
      .add_option("--udp-checksum", settings.udp_checksum,
                  "UDP checksums: as cheap as possible (auto), or always zero")
      ->option_text("auto|zero")
      ->check(CLI::IsMember({"auto", "zero"}));
  CLI::Option* explain = command.add_flag(
      "--explain", settings.explain,
      "Say at the end of a program which calls and requests failed, also into files and pipes");
  command.add_flag("--quiet", settings.quiet, "Do not say it, not even on a terminal")->excludes(explain);
  command.add_option("--log", settings.log, "Print messages of the device to standard error")
      ->option_text("error|info|debug")
      ->check(CLI::IsMember({"error", "info", "debug"}));
  command
      .add_option("--cc", settings.congestion,
                  "Congestion control of connections over UDP (default: auto, depending on the peer)")
      ->option_text("auto|loss|swift|dcqcn|fixed|none");
  command.add_flag("--strict", settings.strict,
                   "Send only what the specification defines, and use go-back-N on every loss");
  command
      .add_option("--strict-peer", settings.strict_peers,
                  "Same as --strict, but only towards this address; repeatable")
      ->option_text("ADDRESS")
      ->allow_extra_args(false)
      ->excludes("--strict");
  command.add_flag("--share-memory", settings.share_memory,
                   "Let other programs of this user on this host map large memory of the program, so that "
                   "one-sided operations are plain copies");
  command.add_flag("--lid", settings.lid,
                   "Give ports a LID, for programs that do not use GIDs; needed at both ends");
  CLI::Option* only =
      command.add_flag("--only", settings.only,
                       "Hide the RDMA devices of the kernel (default: list them after those of RRDMA)");
  command.add_flag("--beside", settings.beside, "List the RDMA devices of the kernel before those of RRDMA")
      ->excludes(only);
}

Result<void, OptionProblem> prepare_capture(const DeviceSettings& settings) {
  if (settings.capture.empty() || settings.append) return {};
  if (const int error = link::empty_capture_file(settings.capture); error != 0)
    return Failure{
        OptionProblem{"--pcap: cannot write '" + settings.capture + "': " + std::strerror(error), ""}};
  return {};
}

Result<void, OptionProblem> settle(DeviceSettings& settings) {
  if (!settings.netdev.empty() && if_nametoindex(settings.netdev.c_str()) == 0) {
    return Failure{OptionProblem{"there is no network interface '" + settings.netdev + "'",
                                 "`ip link` lists those that exist"}};
  }
  if (const auto plan = host::parse_device_plan(plan_text(settings)); !plan)
    return Failure{OptionProblem{"--device: " + plan.error(), ""}};
  if (!settings.fault.empty()) {
    if (auto parsed = link::parse_fault_spec(settings.fault); !parsed)
      return Failure{OptionProblem{"--fault: " + parsed.error(), ""}};
  }
  if (auto known = check_congestion(settings); !known) return known;
  for (const std::string& peer : settings.strict_peers) {
    std::array<std::uint8_t, 16> octets{};
    if (::inet_pton(AF_INET, peer.c_str(), octets.data()) != 1 &&
        ::inet_pton(AF_INET6, peer.c_str(), octets.data()) != 1)
      return Failure{OptionProblem{"--strict-peer: '" + peer + "' is no IP address",
                                   "give the address of the peer's port, such as 192.0.2.7"}};
  }
  if (auto planned = read_faults(settings); !planned) return planned;
  const auto limits = limits_of(settings.capture_limits);
  if (!limits) return Failure{OptionProblem{limits.error(), ""}};
  if (settings.capture.empty()) {
    if (limits->any())
      return Failure{OptionProblem{"-s, -c, -C and -W are for --pcap FILE, which is missing", ""}};
    if (settings.append) return Failure{OptionProblem{"--append is for --pcap FILE, which is missing", ""}};
    return {};
  }
  std::error_code error;
  settings.capture = std::filesystem::absolute(settings.capture, error);
  const std::filesystem::path folder = std::filesystem::path(settings.capture).parent_path();
  if (::access(folder.c_str(), W_OK) != 0) {
    return Failure{
        OptionProblem{"--pcap: cannot write to '" + folder.string() + "': " + std::strerror(errno), ""}};
  }
  return {};
}

Variables variables_of(const DeviceSettings& settings) {
  Variables variables = {{"RRDMA_NETDEV", settings.netdev},
                         {"RRDMA_DEVICE_PLAN", plan_text(settings)},
                         {"RRDMA_LINK", settings.link},
                         {"RRDMA_FAULT", settings.fault},
                         {"RRDMA_FAULTS", joined_rules(settings)},
                         {"RRDMA_PCAP", settings.capture},
                         {"RRDMA_PCAP_LIMITS", limits_text(settings)},
                         {"RRDMA_UDP_CHECKSUM", settings.udp_checksum},
                         {"RRDMA_LOG", settings.log},
                         {"RRDMA_EXPLAIN", settings.quiet     ? "never"
                                           : settings.explain ? "always"
                                                              : "terminal"},
                         {"RRDMA_CC", settings.congestion},
                         {"RRDMA_STRICT", settings.strict ? "1" : with_separator(settings.strict_peers, ',')},
                         {"RRDMA_LID", settings.lid ? "1" : ""},
                         {"RRDMA_DEVICES", settings.only     ? "only"
                                           : settings.beside ? "beside"
                                                             : ""}};
  std::erase_if(variables, [](const auto& variable) { return variable.second.empty(); });
  return variables;
}

std::vector<std::string> variable_names() {
  return {"RRDMA_NETDEV",  "RRDMA_DEVICE_PLAN", "RRDMA_LINK",         "RRDMA_FAULT", "RRDMA_FAULTS",
          "RRDMA_PCAP",    "RRDMA_PCAP_LIMITS", "RRDMA_UDP_CHECKSUM", "RRDMA_LOG",   "RRDMA_LID",
          "RRDMA_EXPLAIN", "RRDMA_DEVICES",     "RRDMA_CC",           "RRDMA_STRICT"};
}

Result<std::vector<std::string>, OptionProblem> libraries_of(const DeviceSettings& settings) {
  std::vector<std::string> libraries;
  for (const char* name : {kDeviceLibrary, kMemoryLibrary}) {
    if (name == kMemoryLibrary && !settings.share_memory) continue;
    libraries.push_back(find_library(name));
    if (libraries.back().empty())
      return Failure{OptionProblem{
          std::string(name) + " is not where this rrdma looks for it, in ../lib beside its own folder",
          "install RRDMA whole, or build the target `products`"}};
  }
  return libraries;
}

std::string preload_with(const std::vector<std::string>& libraries,
                         const std::vector<std::string>& sanitizers) {
  std::vector<std::string> entries = sanitizers;
  entries.insert(entries.end(), libraries.begin(), libraries.end());
  for (std::string& entry : foreign_entries(present_preload())) entries.push_back(std::move(entry));
  return with_separator(entries);
}

std::string preload_without() { return with_separator(foreign_entries(present_preload())); }

}  // namespace rrdma::tools
