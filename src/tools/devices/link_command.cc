// `rrdma link`: adds devices on other network interfaces. rrdma0 always exists. Added devices are stored for
// this user (host/device_links.h); programs started later find them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "host/device_links.h"
#include "nic/settings.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/terminal.h"
#include "tools/text_layout.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma link";

struct LinkOptions {
  std::string interface;
  std::string device;
  bool json = false;
};

int save(const std::vector<host::AddedLink>& links) {
  if (const auto written = host::write_added_links(links); !written) {
    return complain(
        kName, formatted("cannot write '{}': {}", host::added_links_file(), std::strerror(written.error())),
        "it is in $XDG_CONFIG_HOME or in ~/.config");
  }
  return kExitSuccess;
}

int add_link(const LinkOptions& options) {
  const auto interfaces = host::read_interfaces();
  if (!interfaces) return complain(kName, interfaces.error().sentence, "");
  if (std::none_of(interfaces->begin(), interfaces->end(),
                   [&](const auto& one) { return one.name == options.interface; })) {
    return complain(kName, "there is no network interface '" + options.interface + "'",
                    "`ip link` lists those that exist");
  }
  const host::Interface* first = host::choose_interface(*interfaces, nic::settings_from_environment().netdev);
  if (first != nullptr && first->name == options.interface) {
    return complain(kName, "rrdma0 sits on '" + options.interface + "' already", "");
  }
  auto links = host::read_added_links();
  if (!links) return complain(kName, links.error().sentence, "");
  std::uint32_t number = 1;
  for (const host::AddedLink& link : *links) {
    if (link.interface == options.interface)
      return complain(kName, formatted("rrdma{} sits on '{}' already", link.number, options.interface), "");
    if (link.number == number) ++number;
  }
  if (number > host::kAddedDevicesMax)
    return complain(kName, formatted("there are {} devices already", host::kAddedDevicesMax), "");
  links->push_back({number, options.interface});
  if (const int status = save(*links); status != kExitSuccess) return status;
  Output output;
  output.write(
      formatted("rrdma{} on {}: programs that start from now on find it\n", number, options.interface));
  (void)output.flush();
  return kExitSuccess;
}

int delete_link(const LinkOptions& options) {
  auto links = host::read_added_links();
  if (!links) return complain(kName, links.error().sentence, "");
  const auto count = std::erase_if(*links, [&](const host::AddedLink& link) {
    return options.device == formatted("rrdma{}", link.number) || options.device == link.interface;
  });
  if (count == 0)
    return complain(kName, "no device '" + options.device + "' was added",
                    "`rrdma link show` lists those that were; rrdma0 stays");
  return save(*links);
}

int show_links(const LinkOptions& options) {
  const auto interfaces = host::read_interfaces();
  if (!interfaces) return complain(kName, interfaces.error().sentence, "");
  const auto added = host::read_added_links();
  if (!added) return complain(kName, added.error().sentence, "");
  const auto placements = host::place_devices(*interfaces, *added, nic::settings_from_environment().netdev);
  auto list = nlohmann::ordered_json::array();
  Table table({{"DEVICE"}, {"INTERFACE"}, {"STATE"}});
  const auto row = [&](std::uint32_t number, const std::string& interface, const char* state) {
    table.add({formatted("rrdma{}", number), interface, state});
    list.push_back({{"device", formatted("rrdma{}", number)}, {"interface", interface}, {"state", state}});
  };
  for (const host::Placement& placement : placements)
    row(placement.number, placement.interface->name, placement.interface->running ? "active" : "down");
  for (const host::AddedLink& link : *added) {
    const auto placed = [&](const host::Placement& one) { return one.number == link.number; };
    if (std::none_of(placements.begin(), placements.end(), placed))
      row(link.number, link.interface, "not here");
  }
  const wire::Palette palette = palette_for(STDOUT_FILENO, ColourChoice::kAuto);
  Output output;
  output.write(options.json ? list.dump(2) + "\n" : table.text(palette.name, palette.reset));
  return output.flush() == 0 ? kExitSuccess : kExitFailure;
}

}  // namespace

void add_link_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<LinkOptions>();
  CLI::App* link = add_command(app, "link", kLooking, "Add, remove and list devices on further interfaces",
                               "rrdma link show\nrrdma link add eth1");
  link->require_subcommand(1);
  CLI::App* add = link->add_subcommand("add", "Add a device on this interface");
  add->add_option("IF", options->interface, "The network interface")->required();
  add->callback([&chosen, options] { chosen = [options] { return add_link(*options); }; });
  CLI::App* remove = link->add_subcommand("del", "Remove a device");
  remove->add_option("DEVICE", options->device, "Its name or its interface")->required();
  remove->callback([&chosen, options] { chosen = [options] { return delete_link(*options); }; });
  CLI::App* show = link->add_subcommand("show", "List the devices and their interfaces");
  show->add_flag("-j,--json", options->json, "Print JSON");
  show->callback([&chosen, options] { chosen = [options] { return show_links(*options); }; });
  link->footer(
      "rrdma0 always exists, on the interface of the default route or of `rrdma run --netdev`. Added devices "
      "are stored\n"
      "for this user and apply to programs that start afterwards.\n"
      "Exit status: 0, or 2 on failure.");
}

}  // namespace rrdma::tools
