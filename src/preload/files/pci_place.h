// PciPlace: the folder in which the kernel would show a device with a given PCI address. Programs that
// compute distances between devices follow /sys/class/infiniband/NAME/device, or look a bus up in
// /sys/class/pci_bus, and compare the folders.
//
//   0000:81:00.0 -> sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0     root, bridge, device
//
// Buses whose numbers differ only in the last digit share a root.
#pragma once

#include <string>

namespace rrdma::files {

struct PciPlace {
  std::string address;  // 0000:81:00.0
  std::string bus;      // 0000:81
  std::string root;     // sys/devices/pci0000:80
  std::string bridge;   // sys/devices/pci0000:80/0000:80:01.0, or the root
  std::string folder;   // of the device
};

// REQUIRES: an address in the form of device_plan.h.
PciPlace pci_place_of(const std::string& address);

}  // namespace rrdma::files
