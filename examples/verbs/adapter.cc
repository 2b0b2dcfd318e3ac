#include "examples/verbs/adapter.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

namespace examples {
namespace {

bool is_ipv4(const ibv_gid& gid) {
  static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

int choose_gid(ibv_context* context, const ibv_port_attr& port) {
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, kPort, static_cast<std::uint32_t>(index), &entry, 0) != 0) continue;
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(entry.gid)) return index;
  }
  return 0;
}

ibv_context* open_named(ibv_device** list, int count, const std::string& name, Narrator& narrator) {
  for (int i = 0; i < count; ++i) {
    if (!name.empty() && name != ibv_get_device_name(list[i])) continue;
    ibv_context* context = ibv_open_device(list[i]);
    if (context == nullptr) fail(std::string("ibv_open_device(") + ibv_get_device_name(list[i]) + ")", errno);
    narrator.step("Device %s is open", ibv_get_device_name(list[i]));
    return context;
  }
  fail(name.empty() ? "there is no RDMA device" : "there is no RDMA device '" + name + "'");
}

}  // namespace

std::string text_of(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(is_ipv4(gid) ? AF_INET : AF_INET6, is_ipv4(gid) ? gid.raw + 12 : gid.raw, text, sizeof text);
  return text;
}

Adapter open_adapter(const std::string& name, int gid_index, Narrator& narrator) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) fail("ibv_get_device_list", errno);
  narrator.step("Device list: %d found", count);
  for (int i = 0; i < count; ++i) narrator.detail("%s", ibv_get_device_name(list[i]));
  Adapter adapter;
  adapter.context.reset(open_named(list, count, name, narrator));
  ibv_free_device_list(list);

  if (const int error = ibv_query_port(adapter.context.get(), kPort, &adapter.port); error != 0)
    fail("ibv_query_port", error);
  adapter.gid_index = gid_index >= 0 ? gid_index : choose_gid(adapter.context.get(), adapter.port);
  // An unused entry of the table consists of zeros.
  if (ibv_query_gid(adapter.context.get(), kPort, adapter.gid_index, &adapter.gid) != 0 ||
      (adapter.gid.global.subnet_prefix == 0 && adapter.gid.global.interface_id == 0)) {
    fail("there is no GID with index " + std::to_string(adapter.gid_index));
  }
  narrator.step("Port %d: %s, MTU %u, GID %d is %s", kPort, ibv_port_state_str(adapter.port.state),
                octets_of(adapter.port.active_mtu), adapter.gid_index, text_of(adapter.gid).c_str());
  if (adapter.port.state != IBV_PORT_ACTIVE) fail("the port is not active: is the network interface up?");

  adapter.domain.reset(ibv_alloc_pd(adapter.context.get()));
  if (adapter.domain == nullptr) fail("ibv_alloc_pd", errno);
  narrator.step("Protection domain (PD): a queue pair can use only the memory of its own PD");
  return adapter;
}

}  // namespace examples
