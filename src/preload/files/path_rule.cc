#include "preload/files/path_rule.h"

#include <algorithm>

#include "preload/files/pci_place.h"

namespace rrdma::files {
namespace {

constexpr std::string_view kDevices = "/sys/class/infiniband";
constexpr std::string_view kVerbsFiles = "/sys/class/infiniband_verbs";
constexpr std::string_view kDeviceFolders = "/sys/devices/virtual/infiniband";
constexpr std::string_view kVerbsFolders = "/sys/devices/virtual/infiniband_verbs";
constexpr std::string_view kDeviceFiles = "/dev/infiniband";
constexpr std::string_view kAll[] = {kDevices, kVerbsFiles, kDeviceFolders, kVerbsFolders, kDeviceFiles};
constexpr std::string_view kPciFolders[] = {"/sys/devices/pci", "/sys/class/pci_bus/",
                                            "/sys/bus/pci/devices/"};

bool is_inside(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

// "rrdma0" of "//rrdma0/ports".
std::string_view first_name(std::string_view rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  return rest.substr(0, rest.find('/'));
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

PathRule::PathRule(const std::vector<DeviceView>& views, const KernelNames& kernel) : all_(kernel.hidden) {
  std::vector<std::string> devices, verbs_files;
  for (const DeviceView& view : views) {
    devices.push_back(view.identity.name);
    verbs_files.push_back(view.verbs_file);
  }
  std::vector<std::string> device_files = verbs_files;
  if (!contains(kernel.device_files, "rdma_cm")) device_files.emplace_back("rdma_cm");
  folders_.push_back({std::string(kDeviceFolders), devices});
  folders_.push_back({std::string(kVerbsFolders), verbs_files});
  folders_.push_back({std::string(kDeviceFiles), device_files});
  folders_.push_back({std::string(kDevices), devices});
  if (!contains(kernel.verbs_files, "abi_version")) verbs_files.emplace_back("abi_version");
  folders_.push_back({std::string(kVerbsFiles), verbs_files});
  for (const DeviceView& view : views) {
    if (view.identity.properties.pci.empty()) continue;
    const PciPlace place = pci_place_of(view.identity.properties.pci);
    whole_.push_back("/" + (view.pci_root_is_machines ? place.folder : place.root));
    whole_.push_back("/sys/class/pci_bus/" + place.bus);
    whole_.push_back("/sys/bus/pci/devices/" + place.address);
  }
}

bool PathRule::may_match(std::string_view path) {
  return std::any_of(std::begin(kAll), std::end(kAll),
                     [&](std::string_view folder) { return is_inside(path, folder); }) ||
         std::any_of(std::begin(kPciFolders), std::end(kPciFolders),
                     [&](std::string_view folder) { return path.starts_with(folder); });
}

bool PathRule::matches(std::string_view path) const {
  for (const std::string& folder : whole_) {
    if (is_inside(path, folder)) return true;
  }
  for (const Folder& folder : folders_) {
    if (!is_inside(path, folder.path)) continue;
    const std::string_view name = first_name(path.substr(folder.path.size()));
    return all_ || name.empty() || contains(folder.own_names, name);
  }
  return false;
}

}  // namespace rrdma::files
