#include "preload/files/device_tree.h"

#include <algorithm>

#include "base/format.h"
#include "preload/files/counter_files.h"
#include "preload/files/pci_place.h"

namespace rrdma::files {
namespace {

using Kind = TreeEntry::Kind;

constexpr const char* kVerbsAbi = "6";
constexpr const char* kCharacterDevice = "/dev/null";
constexpr const char* kCharacterDeviceNumber = "1:3";
// The same as in ibv_query_port: a connection manager, and GIDs made of IP addresses.
constexpr std::uint32_t kCapabilities = 0x04010000;
// The values of a device without a plan (verbs/device/limits.h).
constexpr std::uint32_t kVendor = 0x5252;
constexpr std::uint32_t kPart = 1;
constexpr const char* kEthernetController = "0x020000";

std::string guid_text(std::uint64_t guid) {
  return formatted("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff, guid >> 16 & 0xffff,
                   guid & 0xffff);
}

std::string gid_text(const wire::Gid& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.octets.size(); i += 2) {
    text += formatted("{}{:02x}{:02x}", i == 0 ? "" : ":", gid.octets[i], gid.octets[i + 1]);
  }
  return text;
}

// Builds one device's entries under its folder.
class Writer {
 public:
  Writer(std::vector<TreeEntry>& out, std::string folder) : out_(out), folder_(std::move(folder)) {}
  void file(const std::string& name, const std::string& line) { whole(name, line + "\n"); }
  void whole(const std::string& name, const std::string& content) {
    out_.push_back({folder_ + "/" + name, Kind::kFile, content});
  }
  void link(const std::string& name, const std::string& target) {
    out_.push_back({folder_ + "/" + name, Kind::kLink, target});
  }

 private:
  std::vector<TreeEntry>& out_;
  std::string folder_;
};

void add_port(Writer& device, const DeviceView& view) {
  const auto file = [&](const std::string& name, const std::string& line) {
    device.file("ports/1/" + name, line);
  };
  const std::uint64_t gbps =
      std::max<std::uint64_t>(view.port.speed_mbps != 0 ? view.port.speed_mbps / 1000 : 100, 1);
  file("state", view.port.up ? "4: ACTIVE" : "1: DOWN");
  file("phys_state", view.port.up ? "5: LinkUp" : "3: Disabled");
  file("rate", formatted("{} Gb/sec", gbps));
  file("link_layer", "Ethernet");
  file("cap_mask", formatted("{:#010x}", kCapabilities));
  file("lid", formatted("{:#x}", view.lid));
  file("lid_mask_count", "0");
  file("sm_lid", "0x0");
  file("sm_sl", "0");
  file("pkeys/0", "0xffff");
  // Zero counts; opening a file refreshes them (counter_files.h).
  for (const std::string& path : counter_paths()) device.whole("ports/1/" + path, counter_line(path, {}));
  // Only existing entries: the kernel's files of empty entries read as zero or cannot be read.
  for (const host::GidEntry& entry : view.gids) {
    if (!entry.valid) continue;
    const std::string index = std::to_string(entry.index);
    file("gids/" + index, gid_text(entry.gid));
    file("gid_attrs/types/" + index, "RoCE v2");
    file("gid_attrs/ndevs/" + index, view.identity.interface);
  }
}

std::string below_sys(const std::string& path) { return path.substr(std::string_view("sys/").size()); }

// "../../" for a folder of two levels.
std::string way_up(const std::string& folder) {
  std::string way;
  for (const char c : folder + "/") way += c == '/' ? "../" : "";
  return way;
}

// Adds the files beside the device in the folder of its PCI address, and the links to that folder.
void add_pci(std::vector<TreeEntry>& out, const DeviceView& view, const PciPlace& place) {
  const host::DeviceProperties& properties = view.identity.properties;
  Writer pci(out, place.folder);
  pci.file("class", kEthernetController);
  pci.file("vendor", formatted("{:#06x}", properties.vendor.value_or(kVendor)));
  pci.file("device", formatted("{:#06x}", properties.part.value_or(kPart)));
  pci.file("subsystem_vendor", formatted("{:#06x}", properties.vendor.value_or(kVendor)));
  pci.file("subsystem_device", "0x0000");
  pci.file("revision", "0x00");
  for (const char* which : {"max", "current"}) {
    pci.file(formatted("{}_link_speed", which), "32.0 GT/s PCIe");
    pci.file(formatted("{}_link_width", which), "16");
  }
  pci.file("uevent", "PCI_SLOT_NAME=" + place.address);
  pci.link("subsystem", way_up(below_sys(place.folder)) + "bus/pci");
  out.push_back({"sys/bus/pci/devices/" + place.address, Kind::kLink, "../../../" + below_sys(place.folder)});
}

// Once for all devices on the bus.
void add_pci_bus(std::vector<TreeEntry>& out, const DeviceView& view, const PciPlace& place) {
  const std::string bus = "sys/class/pci_bus/" + place.bus;
  const auto known = [&](const TreeEntry& entry) { return entry.path == bus; };
  if (std::any_of(out.begin(), out.end(), known)) return;
  const std::string folder = place.bridge + "/pci_bus/" + place.bus;
  out.push_back({bus, Kind::kLink, "../../" + below_sys(folder)});
  Writer(out, folder).file("numa_node", view.numa_node);
}

void add_device(std::vector<TreeEntry>& out, const DeviceView& view) {
  const std::string& name = view.identity.name;
  const host::DeviceProperties& properties = view.identity.properties;
  const bool has_pci = !properties.pci.empty();
  const PciPlace place = has_pci ? pci_place_of(properties.pci) : PciPlace{};
  const std::string parent = has_pci ? place.folder : "sys/devices/virtual";
  const std::string folder = parent + "/infiniband/" + name;
  const std::string verbs_folder = parent + "/infiniband_verbs/" + view.verbs_file;
  Writer device(out, folder);
  device.link("subsystem", way_up(below_sys(folder)) + "class/infiniband");
  device.file("node_type", "1: CA");
  device.file("node_desc", name);
  device.file("node_guid", guid_text(view.identity.guid));
  device.file("sys_image_guid", guid_text(view.identity.guid));
  device.file("fw_ver", properties.firmware.empty() ? RRDMA_VERSION : properties.firmware);
  device.file("hw_rev", "1");
  device.file("hca_type", "RRDMA");
  device.file("board_id", "RRDMA");
  // A device without a PCI address has a folder of its own instead.
  if (has_pci) device.link("device", "../..");
  Writer around(out, has_pci ? place.folder : folder + "/device");
  around.link("net/" + view.identity.interface, "/sys/class/net/" + view.identity.interface);
  around.file("numa_node", view.numa_node);
  if (has_pci) {
    add_pci(out, view, place);
    add_pci_bus(out, view, place);
  } else {
    around.link("infiniband/" + name, "../..");
    around.link("infiniband_verbs/" + view.verbs_file, "../../../../infiniband_verbs/" + view.verbs_file);
  }
  add_port(device, view);

  Writer verbs(out, verbs_folder);
  verbs.link("subsystem", way_up(below_sys(verbs_folder)) + "class/infiniband_verbs");
  verbs.link("device", has_pci ? "../.." : "../../infiniband/" + name + "/device");
  verbs.file("ibdev", name);
  verbs.file("abi_version", "1");
  verbs.file("dev", kCharacterDeviceNumber);

  out.push_back({"sys/class/infiniband/" + name, Kind::kLink, "../../" + below_sys(folder)});
  out.push_back(
      {"sys/class/infiniband_verbs/" + view.verbs_file, Kind::kLink, "../../" + below_sys(verbs_folder)});
  out.push_back({"dev/infiniband/" + view.verbs_file, Kind::kLink, kCharacterDevice});
}

// The machine's own devices stay in place; a listing shows them beside ours.
void add_kernel_names(std::vector<TreeEntry>& out, const std::string& folder,
                      const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    const bool taken = std::any_of(out.begin(), out.end(), [&](const TreeEntry& entry) {
      return entry.path.starts_with(path) &&
             (entry.path.size() == path.size() || entry.path[path.size()] == '/');
    });
    if (!taken) out.push_back({path, Kind::kLink, "/" + path});
  }
}

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<TreeEntry> device_tree(const std::vector<DeviceView>& views, const KernelNames& kernel) {
  std::vector<TreeEntry> out;
  for (const DeviceView& view : views) add_device(out, view);
  add_kernel_names(out, "sys/class/infiniband", kernel.devices);
  add_kernel_names(out, "sys/class/infiniband_verbs", kernel.verbs_files);
  add_kernel_names(out, "dev/infiniband", kernel.device_files);
  add_kernel_names(out, "sys/devices/virtual/infiniband", kernel.device_folders);
  add_kernel_names(out, "sys/devices/virtual/infiniband_verbs", kernel.verbs_folders);
  if (!contains(kernel.verbs_files, "abi_version"))
    out.push_back({"sys/class/infiniband_verbs/abi_version", Kind::kFile, std::string(kVerbsAbi) + "\n"});
  if (!contains(kernel.device_files, "rdma_cm"))
    out.push_back({"dev/infiniband/rdma_cm", Kind::kLink, kCharacterDevice});
  return out;
}

}  // namespace rrdma::files
