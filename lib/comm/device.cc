// Device: queries librdmacm and verbs for each device.
#include "rrdma/comm/device.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "lib/comm/address.h"
#include "lib/comm/device_query.h"
#include "lib/comm/verbs_library.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr int kMaxGids = 64;  // a table may have 256 entries, most of them empty

std::string text_of(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  in6_addr address{};
  std::memcpy(&address, gid.raw, sizeof(address));
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    ::inet_ntop(AF_INET, gid.raw + 12, text.data(), text.size());
  } else {
    ::inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
  }
  return text.data();
}

void add_port(ibv_context* verbs, std::uint8_t number, Device& device) {
  ibv_port_attr port{};
  if (ibv_query_port(verbs, number, &port) != 0) return;
  if (port.state == IBV_PORT_ACTIVE && !device.active) {
    device.active = true;
    device.mtu = 128U << static_cast<unsigned>(port.active_mtu);
  }
  const ibv_gid nothing{};
  for (int index = 0; index < std::min(port.gid_tbl_len, kMaxGids); ++index) {
    ibv_gid gid{};
    if (ibv_query_gid(verbs, number, index, &gid) != 0 || std::memcmp(&gid, &nothing, sizeof(gid)) == 0)
      continue;
    std::string text = text_of(gid);
    // Skip link-local addresses: they cannot be bound or connected to without an interface.
    if (text.starts_with("fe80:")) continue;
    if (std::find(device.addresses.begin(), device.addresses.end(), text) == device.addresses.end())
      device.addresses.push_back(std::move(text));
  }
}

bool describe(ibv_context* verbs, FoundDevice& found) {
  if (ibv_query_device(verbs, &found.limits) != 0) return false;
  found.verbs = verbs;
  Device& device = found.device;
  device = Device{};
  device.name = ibv_get_device_name(verbs->device);
  const ibv_device_attr& limits = found.limits;
  device.max_queue_depth = static_cast<std::uint32_t>(limits.max_qp_wr);
  device.max_completions = static_cast<std::uint32_t>(limits.max_cqe);
  device.max_reads = static_cast<std::uint32_t>(std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom));
  device.atomics = limits.atomic_cap != IBV_ATOMIC_NONE;
  device.shared_receive_queues = limits.max_srq > 0;
  device.memory_windows = limits.max_mw > 0 && (limits.device_cap_flags &
                                                (IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
  device.software = library_of(reinterpret_cast<const void*>(verbs->ops.poll_cq)).find("/librrdma.so.") !=
                    std::string::npos;
  for (std::uint8_t port = 1; port <= limits.phys_port_cnt; ++port) add_port(verbs, port, device);
  return true;
}

// Calls `use` with each device. Stops when it returns true.
template <typename Use>
Result<void> each_device(const std::string& name, bool software, Use use) {
  if (auto loaded = load_verbs(name, software); !loaded) return loaded.error();
  int count = 0;
  std::unique_ptr<ibv_context*, decltype(&rdma_free_devices)> list(rdma_get_devices(&count),
                                                                   &rdma_free_devices);
  if (!list || count == 0) {
    Error error(Code::kNoDevice, During::kOpen, list ? 0 : errno);
    return std::move(error).with_note(why_no_software_device());
  }
  FoundDevice found{};
  for (int i = 0; i < count; ++i) {
    if (describe(list.get()[i], found) && use(found)) break;
  }
  return {};
}

// One line for debugging, if RRDMA_COMM_DEBUG is set.
void report(const FoundDevice& found) {
  const char* debug = std::getenv("RRDMA_COMM_DEBUG");
  if (debug == nullptr || *debug == '\0' || *debug == '0') return;
  const std::string library = library_of(reinterpret_cast<const void*>(found.verbs->ops.poll_cq));
  std::fprintf(stderr, "rrdma::comm: device %s, %s, implemented by %s\n", found.device.name.c_str(),
               found.device.software ? "in software" : "of the system", library.c_str());
}

}  // namespace

Result<FoundDevice> find_device(const std::string& name, bool software) {
  FoundDevice chosen{};
  std::string known;
  auto looked = each_device(name, software, [&](FoundDevice& found) {
    known += (known.empty() ? "" : ", ") + found.device.name;
    if (name.empty() ? !found.device.active : found.device.name != name) return false;
    chosen = found;
    return true;
  });
  if (!looked) return looked.error();
  if (chosen.verbs == nullptr) {
    return Error(Code::kNoDevice, During::kOpen)
        .with_peer(name)
        .with_note(name.empty() ? "no port is active of: " + known : "there are: " + known);
  }
  report(chosen);
  return chosen;
}

}  // namespace detail

Result<std::vector<Device>> Device::all() {
  std::vector<Device> devices;
  auto looked = detail::each_device({}, true, [&](detail::FoundDevice& found) {
    devices.push_back(found.device);
    return false;
  });
  if (!looked) return looked.error();
  return devices;
}

Result<Device> Device::named(const std::string& name) {
  auto found = detail::find_device(name, true);
  if (!found) return found.error();
  return std::move(found->device);
}

Result<Device> Device::with_address(const std::string& address) {
  auto devices = all();
  if (!devices) return devices.error();
  for (Device& device : *devices) {
    if (std::find(device.addresses.begin(), device.addresses.end(), address) != device.addresses.end())
      return std::move(device);
  }
  return Error(Code::kNoDevice, During::kOpen).with_peer(address).with_note("no device has this address");
}

Result<Device> Device::toward(const std::string& address) {
  // The port does not affect the route.
  auto parsed = detail::parse_address(address, false);
  if (!parsed)
    parsed = detail::parse_address(
        address.find(':') != address.rfind(':') ? "[" + address + "]:1" : address + ":1", false);
  if (!parsed) return parsed.error();
  auto target = detail::look_up(*parsed);
  if (!target) return target.error();
  if (auto loaded = detail::load_verbs({}, true); !loaded) return loaded.error();
  const std::unique_ptr<rdma_event_channel, decltype(&rdma_destroy_event_channel)> channel(
      rdma_create_event_channel(), &rdma_destroy_event_channel);
  rdma_cm_id* id = nullptr;
  if (!channel || rdma_create_id(channel.get(), &id, nullptr, RDMA_PS_TCP) != 0)
    return Error(Code::kSystem, During::kOpen, errno).with_peer(address);
  std::string name;
  int why = 0;
  if (rdma_resolve_addr(id, nullptr, target->generic(), 2000) != 0) {
    why = errno;
  } else if (rdma_cm_event* event = nullptr; rdma_get_cm_event(channel.get(), &event) == 0) {
    if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED) name = ibv_get_device_name(id->verbs->device);
    why = -event->status;
    rdma_ack_cm_event(event);
  }
  rdma_destroy_id(id);
  if (name.empty())
    return Error(Code::kUnreachable, During::kOpen, why)
        .with_peer(address)
        .with_note("no device has a route to it");
  return named(name);
}

}  // namespace v0
}  // namespace rrdma::comm
