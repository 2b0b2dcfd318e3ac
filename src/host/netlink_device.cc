#include "host/netlink_device.h"

#include <algorithm>

namespace rrdma::host {
namespace {

// Modified EUI-64, derived from a MAC address as in IPv6 and the kernel's RoCE.
std::uint64_t guid_of(const Interface& interface) {
  const std::uint8_t* m = interface.mac;
  std::uint8_t octets[8] = {static_cast<std::uint8_t>(m[0] ^ 2), m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  if (interface.loopback) {  // lo has no MAC; use a locally administered one
    constexpr std::uint8_t kLoopback[8] = {0x02, 0x52, 0x52, 0xff, 0xfe, 0x44, 0x4d, 0x41};
    std::copy(std::begin(kLoopback), std::end(kLoopback), octets);
  }
  std::uint64_t guid = 0;
  for (const std::uint8_t octet : octets) guid = guid << 8 | octet;
  return guid;
}

std::uint8_t code_of_mtu(std::uint32_t octets) {
  std::uint8_t code = 1;
  while (code < 5 && (256u << code) <= octets) ++code;
  return code;
}

}  // namespace

DeviceIdentity identify(const Interface& interface, std::uint32_t index) {
  return {.name = "rrdma" + std::to_string(index),
          .interface = interface.name,
          .interface_index = interface.index,
          .guid = guid_of(interface) ^ (std::uint64_t{index} << 32),
          .device_index = index};
}

DeviceIdentity identify(const Placement& placement, const DevicePlan& plan) {
  DeviceIdentity identity = identify(*placement.interface, placement.number);
  identity.addresses = placement.addresses;
  identity.properties = plan.of(placement.number);
  return identity;
}

std::uint8_t ib_mtu_code(std::uint32_t interface_mtu) {
  constexpr std::uint32_t kHeadersMax = 96;
  const std::uint32_t room = interface_mtu > kHeadersMax ? interface_mtu - kHeadersMax : 0;
  std::uint8_t code = 1;
  while (code < 5 && (256u << code) <= room) ++code;
  return code;
}

NetlinkDevice::NetlinkDevice(DeviceIdentity identity, const std::vector<Interface>& interfaces)
    : identity_(std::move(identity)) {
  take(interfaces);
}

PortStatus NetlinkDevice::port() const {
  std::lock_guard lock(mutex_);
  return port_;
}

std::vector<GidEntry> NetlinkDevice::gids() const {
  std::lock_guard lock(mutex_);
  return gids_;
}

bool NetlinkDevice::is_local_address(const wire::Gid& gid) const {
  if (gid.is_ipv4() && gid.octets[12] == 127) return true;
  std::lock_guard lock(mutex_);
  return std::find(local_.begin(), local_.end(), gid) != local_.end();
}

void NetlinkDevice::add_listener(DeviceListener& listener) {
  std::lock_guard lock(telling_);
  listeners_.push_back(&listener);
}

void NetlinkDevice::remove_listener(DeviceListener& listener) {
  std::lock_guard lock(telling_);
  std::erase(listeners_, &listener);
}

// All addresses of the interface, or this device's share if devices share it. Addresses in 127.0.0.0/8 exist
// although the kernel does not list them.
std::vector<InterfaceAddress> NetlinkDevice::own_addresses(const Interface& interface) const {
  if (identity_.addresses.empty()) return interface.addresses;
  std::vector<InterfaceAddress> own;
  for (const wire::Gid& gid : identity_.addresses) {
    const auto listed = std::find_if(interface.addresses.begin(), interface.addresses.end(),
                                     [&](const InterfaceAddress& a) { return a.gid == gid; });
    if (listed != interface.addresses.end()) {
      own.push_back(*listed);
    } else if (gid.is_ipv4() && gid.octets[12] == 127) {
      own.push_back({.gid = gid, .prefix_length = 8});
    }
  }
  return own;
}

// An address keeps its index; a new address takes the first free one. Index 0 is reserved for the link-local
// address if there is or will be one, as in the kernel.
void NetlinkDevice::take(const std::vector<Interface>& interfaces) {
  take_from_interface(interfaces);
  if (imposed_.port_down || imposed_.removed) port_.up = false;
  if (imposed_.removed) present_ = false;
  if (imposed_.speed_mbps != 0) port_.speed_mbps = imposed_.speed_mbps;
  if (!imposed_.gids_lost && !imposed_.removed) return;
  for (GidEntry& entry : gids_) entry.valid = false;
}

void NetlinkDevice::take_from_interface(const std::vector<Interface>& interfaces) {
  local_.clear();
  const Interface* own = nullptr;
  for (const Interface& interface : interfaces) {
    for (const InterfaceAddress& address : interface.addresses) local_.push_back(address.gid);
    if (interface.index == identity_.interface_index) own = &interface;
  }
  present_ = own != nullptr;
  port_.up = own != nullptr && own->running;
  if (own == nullptr) {
    for (GidEntry& entry : gids_) entry.valid = false;
    return;
  }
  std::copy(std::begin(own->mac), std::end(own->mac), hardware_address_.begin());
  hardware_address_.back() = static_cast<std::uint8_t>(hardware_address_.back() + imposed_.addresses_changed);
  port_.interface_mtu = own->mtu;
  port_.mtu_code = ib_mtu_code(own->mtu);
  if (const auto mtu = identity_.properties.mtu) port_.mtu_code = std::min(port_.mtu_code, code_of_mtu(*mtu));
  port_.speed_mbps = identity_.properties.speed_mbps.value_or(0);
  port_.width = identity_.properties.width.value_or(0);
  if (gids_.empty() && own->link_local) {
    gids_.push_back({.index = 0});
    first_is_link_local_ = true;
  }
  std::vector<InterfaceAddress> addresses = own_addresses(*own);
  constexpr std::uint8_t kHostPrefix = 128;
  if (imposed_.changed && !addresses.empty())
    addresses.back() = {.gid = *imposed_.changed, .prefix_length = kHostPrefix};
  for (const wire::Gid& gid : imposed_.added) addresses.push_back({.gid = gid, .prefix_length = kHostPrefix});
  take_addresses(addresses);
}

void NetlinkDevice::take_addresses(const std::vector<InterfaceAddress>& addresses) {
  for (GidEntry& entry : gids_) {
    entry.valid = entry.valid && std::any_of(addresses.begin(), addresses.end(),
                                             [&](const InterfaceAddress& a) { return a.gid == entry.gid; });
  }
  for (const InterfaceAddress& address : addresses) {
    const auto known = std::find_if(gids_.begin(), gids_.end(),
                                    [&](const GidEntry& e) { return e.valid && e.gid == address.gid; });
    if (known != gids_.end()) {
      known->prefix_length = address.prefix_length;
      continue;
    }
    const bool may_be_first = !first_is_link_local_ || address.gid.is_link_local();
    auto free = std::find_if(gids_.begin() + (may_be_first ? 0 : 1), gids_.end(),
                             [](const GidEntry& e) { return !e.valid; });
    if (free == gids_.end()) {
      if (gids_.size() == kGidsMax) break;
      gids_.push_back({.index = static_cast<std::uint32_t>(gids_.size())});
      free = gids_.end() - 1;
    }
    free->gid = address.gid;
    free->prefix_length = address.prefix_length;
    free->valid = true;
  }
}

std::vector<DeviceEvent> NetlinkDevice::take_and_compare(const std::vector<Interface>& interfaces) {
  const bool was_up = port_.up;
  const std::uint64_t speed_before = port_.speed_mbps;
  const bool was_present = present_;
  const auto hardware_before = hardware_address_;
  const std::vector<GidEntry> before = gids_;
  take(interfaces);
  std::vector<DeviceEvent> events;
  // A failed device reports only that; a device that came back also has a new port.
  if (was_present && !present_ && imposed_.removed) return {DeviceEvent::kRemoved};
  const bool gids_differ = !std::equal(before.begin(), before.end(), gids_.begin(), gids_.end(),
                                       [](const GidEntry& a, const GidEntry& b) {
                                         return a.valid == b.valid && (!a.valid || a.gid == b.gid);
                                       });
  if (gids_differ) events.push_back(DeviceEvent::kGidChange);
  if (port_.up != was_up) events.push_back(port_.up ? DeviceEvent::kPortActive : DeviceEvent::kPortError);
  // The link goes down while it negotiates a new speed.
  if (was_up && port_.up && port_.speed_mbps != speed_before) {
    events.push_back(DeviceEvent::kPortError);
    events.push_back(DeviceEvent::kPortActive);
  }
  if (hardware_address_ != hardware_before) events.push_back(DeviceEvent::kHardwareAddressChange);
  if (was_present && !present_) events.push_back(DeviceEvent::kRemoved);
  return events;
}

void NetlinkDevice::impose(const Imposed& faults, const std::vector<Interface>& interfaces) {
  {
    std::lock_guard lock(mutex_);
    if (imposed_ == faults) return;
    imposed_ = faults;
  }
  refresh(interfaces);
}

void NetlinkDevice::refresh(const std::vector<Interface>& interfaces) {
  if (interfaces.empty()) return;
  std::lock_guard telling(telling_);
  std::vector<DeviceEvent> events;
  {
    std::lock_guard lock(mutex_);
    events = take_and_compare(interfaces);
  }
  for (const DeviceEvent event : events) {
    for (DeviceListener* listener : listeners_) listener->on_device_event(event);
  }
}

}  // namespace rrdma::host
