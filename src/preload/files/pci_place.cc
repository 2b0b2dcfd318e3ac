#include "preload/files/pci_place.h"

namespace rrdma::files {

PciPlace pci_place_of(const std::string& address) {
  PciPlace place{.address = address, .bus = address.substr(0, 7)};
  const std::string root_bus = place.bus.substr(0, 6) + "0";
  place.root = "sys/devices/pci" + root_bus;
  place.bridge =
      place.bus == root_bus ? place.root : place.root + "/" + root_bus + ":0" + place.bus[6] + ".0";
  place.folder = place.bridge + "/" + address;
  return place;
}

}  // namespace rrdma::files
