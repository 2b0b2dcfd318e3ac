// `rrdma devices`: lists the RDMA devices that programs find, with interface, state, MTU and addresses.
// `rrdma gids`: lists the GID table of a device, whose indices programs refer to.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "tools/commands.h"
#include "tools/devices/local_devices.h"
#include "tools/exit_status.h"
#include "tools/terminal.h"
#include "tools/text_layout.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

constexpr const char* kInterfaceHint =
    "`ip link` lists the interfaces that exist; `ip link set lo up` brings up the one that always does";
constexpr std::string_view kGidType = "RoCE v2";

struct DeviceOptions {
  std::string netdev;
  bool json = false;
  std::string device;  // gids: only this device
};

std::string guid_text(std::uint64_t guid) {
  return formatted("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff,
                   guid & 0xffff);
}

// A GID as /sys/class/infiniband shows it: eight groups of four digits.
std::string gid_text(const wire::Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < 16; i += 2) {
    text += formatted("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.octets[i], gid.octets[i + 1]);
  }
  return text;
}

std::string first_address(const LocalDevice& device) {
  // Prefer IPv4, then addresses that are not link-local.
  const auto rank = [](const wire::Gid& gid) { return gid.is_ipv4() ? 0 : gid.octets[0] == 0xfe ? 2 : 1; };
  const host::GidEntry* best = nullptr;
  for (const host::GidEntry& entry : device.gids) {
    if (entry.valid && (best == nullptr || rank(entry.gid) < rank(best->gid))) best = &entry;
  }
  return best == nullptr ? std::string("none") : wire::to_text(best->gid);
}

nlohmann::ordered_json gids_json(const LocalDevice& device) {
  auto list = nlohmann::ordered_json::array();
  for (const host::GidEntry& entry : device.gids) {
    if (!entry.valid) continue;
    list.push_back({{"device", device.identity.name},
                    {"port", 1},
                    {"index", entry.index},
                    {"gid", gid_text(entry.gid)},
                    {"address", wire::to_text(entry.gid)},
                    {"type", kGidType},
                    {"interface", device.identity.interface}});
  }
  return list;
}

nlohmann::ordered_json device_json(const LocalDevice& device) {
  return {{"device", device.identity.name},
          {"interface", device.identity.interface},
          {"state", device.port.up ? "active" : "down"},
          {"guid", guid_text(device.identity.guid)},
          {"interface_mtu", device.port.interface_mtu},
          {"ib_mtu", ib_mtu_octets(device.port.mtu_code)},
          {"gids", gids_json(device)}};
}

int finish(Output& output, const char* command) {
  if (const int error = output.flush(); error != 0)
    return complain(command, formatted("cannot write the output: {}", std::strerror(error)), "");
  return kExitSuccess;
}

int show_devices(const DeviceOptions& options) {
  const auto devices = read_local_devices(options.netdev);
  if (!devices) return complain("rrdma devices", devices.error(), kInterfaceHint);
  Output output;
  if (options.json) {
    auto list = nlohmann::ordered_json::array();
    for (const LocalDevice& device : *devices) list.push_back(device_json(device));
    output.write(list.dump(2) + "\n");
    return finish(output, "rrdma devices");
  }
  const wire::Palette palette = palette_for(STDOUT_FILENO, ColourChoice::kAuto);
  Table table({{"DEVICE"},
               {"INTERFACE"},
               {"STATE"},
               {"MTU", Align::kRight},
               {"IB MTU", Align::kRight},
               {"GUID"},
               {"ADDRESS"}});
  for (const LocalDevice& device : *devices) {
    table.add({device.identity.name, device.identity.interface,
               Cell(device.port.up ? "active" : "down", device.port.up ? palette.good : palette.bad),
               std::to_string(device.port.interface_mtu), std::to_string(ib_mtu_octets(device.port.mtu_code)),
               guid_text(device.identity.guid), first_address(device)});
  }
  output.write(table.text(palette.name, palette.reset));
  return finish(output, "rrdma devices");
}

// Reports a device without a GID and suggests a remedy.
int complain_no_gid(const LocalDevice& device) {
  const std::string& interface = device.identity.interface;
  if (!device.port.up) {
    return complain("rrdma gids",
                    "the interface '" + interface + "' is down, so " + device.identity.name + " has no GID",
                    "as root: ip link set " + interface + " up; or choose another with --netdev");
  }
  return complain(
      "rrdma gids",
      "the interface '" + interface + "' has no address, so " + device.identity.name + " has no GID",
      "give it one (`ip addr add ADDRESS/PREFIX dev " + interface + "`), or choose another with --netdev");
}

int show_gids(const DeviceOptions& options) {
  auto devices = read_local_devices(options.netdev);
  if (!devices) return complain("rrdma gids", devices.error(), kInterfaceHint);
  if (!options.device.empty()) {
    std::string names;
    for (const LocalDevice& device : *devices) names += (names.empty() ? "" : ", ") + device.identity.name;
    std::erase_if(*devices,
                  [&](const LocalDevice& device) { return device.identity.name != options.device; });
    if (devices->empty()) {
      return complain("rrdma gids", "there is no device '" + printable(options.device) + "'",
                      "there is " + names + "; `rrdma link add IF` makes more");
    }
  }
  Output output;
  if (options.json) {
    auto list = nlohmann::ordered_json::array();
    for (const LocalDevice& device : *devices) {
      for (auto& entry : gids_json(device)) list.push_back(std::move(entry));
    }
    output.write(list.dump(2) + "\n");
    return finish(output, "rrdma gids");
  }
  const wire::Palette palette = palette_for(STDOUT_FILENO, ColourChoice::kAuto);
  Table table({{"DEVICE"}, {"INDEX", Align::kRight}, {"ADDRESS"}, {"TYPE"}, {"INTERFACE"}});
  for (const LocalDevice& device : *devices) {
    for (const host::GidEntry& entry : device.gids) {
      if (!entry.valid) continue;
      table.add({device.identity.name, std::to_string(entry.index), wire::to_text(entry.gid),
                 std::string(kGidType), device.identity.interface});
    }
  }
  if (table.empty()) return complain_no_gid(devices->front());
  output.write(table.text(palette.name, palette.reset));
  return finish(output, "rrdma gids");
}

template <typename Run>
CLI::App* add_listing(CLI::App* command, Runner& chosen, const char* footer,
                      std::shared_ptr<DeviceOptions> options, Run run) {
  command
      ->add_option("--netdev", options->netdev,
                   "Show the device on this network interface (default: same as `rrdma run`)")
      ->option_text("IF");
  command->add_flag("-j,--json", options->json, "Print JSON");
  command->footer(footer);
  command->callback([&chosen, options, run] { chosen = [options, run] { return run(*options); }; });
  return command;
}

}  // namespace

void add_devices_command(CLI::App& app, Runner& chosen) {
  add_listing(
      add_command(app, "devices", kLooking, "List the RDMA devices that programs find",
                  "rrdma devices\nrrdma devices --netdev eth0"),
      chosen,
      "The IB MTU is the largest path MTU that fits the interface; 4096 needs an interface MTU of 4192.\n"
      "Exit status: 0, or 2 if there is no device.",
      std::make_shared<DeviceOptions>(), show_devices);
}

void add_gids_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<DeviceOptions>();
  CLI::App* gids = add_listing(
      add_command(app, "gids", kLooking, "List the GIDs (addresses) of a device with their indices",
                  "rrdma gids\nrrdma gids rrdma0"),
      chosen,
      "Programs take the index as an option: `-g` of ibv_rc_pingpong, `-x` of ib_write_bw.\n"
      "Exit status: 0, or 2 if there is no GID.",
      options, show_gids);
  gids->add_option("DEVICE", options->device, "Only the GIDs of this device, such as rrdma0");
}

}  // namespace rrdma::tools
