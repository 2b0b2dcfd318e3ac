#include "host/device_links.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/owned_fd.h"
#include "base/raw_syscall.h"
#include "base/result_try.h"
#include "host/descriptor_room.h"

namespace rrdma::host {
namespace {

constexpr std::string_view kDevicePrefix = "rrdma";
constexpr std::size_t kFileOctetsMax = 4096;

std::string configuration_folder() {
  const char* folder = std::getenv("XDG_CONFIG_HOME");
  if (folder != nullptr && *folder == '/') return folder;
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.config" : std::string();
}

// Empty if the line is malformed.
AddedLink parse_line(std::string_view line) {
  AddedLink link;
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos || !line.starts_with(kDevicePrefix)) return {};
  const std::string_view number = line.substr(kDevicePrefix.size(), blank - kDevicePrefix.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), link.number);
  if (error != std::errc() || end != number.data() + number.size() || link.number > kAddedDevicesMax)
    return {};
  link.interface = line.substr(blank + 1);
  return link;
}

Result<std::string, Problem> file_text() {
  const std::string path = added_links_file();
  if (path.empty()) return path;
  const OwnedFd file(raw::open(path.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (!file && (errno == EMFILE || errno == ENFILE)) return out_of_descriptors(errno, "reading " + path);
  if (!file) return std::string();
  std::string text(kFileOctetsMax, '\0');
  const ssize_t octets = raw::read(file.get(), text.data(), text.size());
  text.resize(octets > 0 ? static_cast<std::size_t>(octets) : 0);
  return text;
}

bool write_whole(const std::string& path, std::string_view text) {
  const OwnedFd file(raw::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return file && raw::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool is_used(const std::vector<Placement>& placements, const Interface& interface) {
  return std::any_of(placements.begin(), placements.end(),
                     [&](const Placement& one) { return one.interface == &interface; });
}

// The first unused interface that is running and has an address; else lo; else null.
const Interface* next_interface(const std::vector<Placement>& placements,
                                const std::vector<Interface>& interfaces) {
  const Interface* loopback = nullptr;
  for (const Interface& one : interfaces) {
    if (one.loopback) loopback = &one;
    const bool reachable = std::any_of(one.addresses.begin(), one.addresses.end(),
                                       [](const InterfaceAddress& a) { return !a.gid.is_link_local(); });
    if (!one.loopback && one.running && reachable && !is_used(placements, one)) return &one;
  }
  return loopback;
}

void add_until(std::vector<Placement>& placements, const std::vector<Interface>& interfaces,
               std::uint32_t count) {
  for (std::uint32_t number = 1; number < count; ++number) {
    const auto same = [&](const Placement& one) { return one.number == number; };
    if (std::any_of(placements.begin(), placements.end(), same)) continue;
    const Interface* interface = next_interface(placements, interfaces);
    if (interface != nullptr) placements.push_back({interface, number, {}});
  }
  std::sort(placements.begin(), placements.end(),
            [](const Placement& a, const Placement& b) { return a.number < b.number; });
}

// rrdma0 gets the addresses of lo that no other device has.
void share_loopback(std::vector<Placement>& placements) {
  const auto has = [](const Placement& place, const wire::Gid& gid) {
    const auto& all = place.interface->addresses;
    return std::any_of(all.begin(), all.end(), [&](const InterfaceAddress& a) { return a.gid == gid; });
  };
  std::vector<wire::Gid> taken;
  for (Placement& place : placements) {
    if (!place.interface->loopback || place.number == 0) continue;
    const PrivateAddresses own = private_addresses(place.number);
    if (has(place, own.ipv4)) place.addresses.push_back(own.ipv4);
    if (has(place, own.ipv6)) place.addresses.push_back(own.ipv6);
    if (place.addresses.empty())
      place.addresses.push_back(wire::gid_of_ipv4({127, 0, 0, static_cast<std::uint8_t>(place.number + 1)}));
    taken.insert(taken.end(), place.addresses.begin(), place.addresses.end());
  }
  Placement& first = placements.front();
  if (!first.interface->loopback || taken.empty()) return;
  for (const InterfaceAddress& address : first.interface->addresses) {
    if (std::find(taken.begin(), taken.end(), address.gid) == taken.end())
      first.addresses.push_back(address.gid);
  }
}

}  // namespace

std::string added_links_file() {
  const std::string folder = configuration_folder();
  return folder.empty() ? folder : folder + "/rrdma/links";
}

Result<std::vector<AddedLink>, Problem> read_added_links() {
  std::vector<AddedLink> links;
  const auto text = file_text();
  RRDMA_TRY(text);
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    const AddedLink link = parse_line(rest.substr(0, end));
    const auto same = [&](const AddedLink& other) {
      return other.number == link.number || other.interface == link.interface;
    };
    if (link.number != 0 && !link.interface.empty() && std::none_of(links.begin(), links.end(), same))
      links.push_back(link);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  std::sort(links.begin(), links.end(),
            [](const AddedLink& a, const AddedLink& b) { return a.number < b.number; });
  return links;
}

Result<void, int> write_added_links(const std::vector<AddedLink>& links) {
  const std::string path = added_links_file();
  if (path.empty()) return Failure{ENOENT};
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (::mkdir(path.substr(0, slash).c_str(), 0755) != 0 && errno != EEXIST) return Failure{errno};
  }
  std::string text;
  for (const AddedLink& link : links)
    text += std::string(kDevicePrefix) + std::to_string(link.number) + " " + link.interface + "\n";
  const std::string fresh = path + ".new";
  if (!write_whole(fresh, text) || std::rename(fresh.c_str(), path.c_str()) != 0) return Failure{errno};
  return {};
}

PrivateAddresses private_addresses(std::uint32_t number) {
  const auto last = static_cast<std::uint8_t>(number + 1);
  return {.ipv4 = wire::gid_of_ipv4({10, 82, 0, last}),
          .ipv6 = {{0xfd, 0x52, 0x52, 0x44, 0x4d, 0x41, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}}};
}

std::vector<Placement> place_devices(const std::vector<Interface>& interfaces,
                                     const std::vector<AddedLink>& added, const std::string& wanted,
                                     std::uint32_t count) {
  const Interface* first = choose_interface(interfaces, wanted);
  if (first == nullptr) return {};
  std::vector<Placement> placements{{first, 0, {}}};
  for (const AddedLink& link : added) {
    const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                    [&](const Interface& one) { return one.name == link.interface; });
    if (found != interfaces.end() && &*found != first) placements.push_back({&*found, link.number, {}});
  }
  if (count != 0) {
    std::erase_if(placements, [&](const Placement& one) { return one.number >= count; });
    add_until(placements, interfaces, count);
    share_loopback(placements);
  }
  return placements;
}

}  // namespace rrdma::host
