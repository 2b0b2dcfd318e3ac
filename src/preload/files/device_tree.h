// The files of our devices as the kernel would show them, as a list of entries: a pure function of the
// devices. tree_store.h writes them to disk.
//
//   sys/class/infiniband/rrdma0             -> the device's folder
//   sys/class/infiniband_verbs/uverbs0      -> the folder of its command file
//   sys/devices/virtual/infiniband/rrdma0/  node_guid, fw_ver, ..., device/net/IF, ports/1/{state, gids/N,
//                                           counters/port_xmit_data, ...}
//   sys/devices/pci0000:80/.../0000:81:00.0/infiniband/rrdma0/ instead, for a device with a PCI address
//   (pci_place.h)
//   dev/infiniband/uverbs0, rdma_cm         -> /dev/null: a character device that every user may open
#pragma once

#include <string>
#include <vector>

#include "preload/files/device_view.h"

namespace rrdma::files {

// Paths imply their folders.
struct TreeEntry {
  enum class Kind : std::uint8_t { kFile, kLink };
  std::string path;  // relative to the root of the tree
  Kind kind = Kind::kFile;
  std::string content;  // of a file, or the target of a link
};

// The kernel's own names in the folders that we answer for; ours appear beside them.
struct KernelNames {
  std::vector<std::string> devices;         // /sys/class/infiniband
  std::vector<std::string> verbs_files;     // /sys/class/infiniband_verbs
  std::vector<std::string> device_files;    // /dev/infiniband
  std::vector<std::string> device_folders;  // /sys/devices/virtual/infiniband
  std::vector<std::string> verbs_folders;   // /sys/devices/virtual/infiniband_verbs
  bool hidden = false;                      // programs see none of them
};

std::vector<TreeEntry> device_tree(const std::vector<DeviceView>& views, const KernelNames& kernel);

}  // namespace rrdma::files
