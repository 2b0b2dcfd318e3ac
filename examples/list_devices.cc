// Lists the RDMA devices of this host. For each device: its GUID, its port, and its GID table, whose indices
// other programs refer to.
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cinttypes>

#include "examples/verbs/adapter.h"

namespace examples {
namespace {

std::uint64_t host_order(std::uint64_t guid) {
  return std::uint64_t{ntohl(static_cast<std::uint32_t>(guid))} << 32 |
         ntohl(static_cast<std::uint32_t>(guid >> 32));
}

const char* name_of(std::uint32_t gid_type) {
  switch (gid_type) {
    case IBV_GID_TYPE_IB: return "InfiniBand";
    case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
    default: return "unknown";
  }
}

void show_port(ibv_context* context, std::uint8_t number) {
  ibv_port_attr port{};
  if (const int error = ibv_query_port(context, number, &port); error != 0) fail("ibv_query_port", error);
  std::printf("  port %u: %s, MTU %u of at most %u, %s\n", number, ibv_port_state_str(port.state),
              octets_of(port.active_mtu), octets_of(port.max_mtu),
              port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, number, static_cast<std::uint32_t>(index), &entry, 0) != 0) continue;
    std::printf("    GID %d: %s (%s)\n", index, text_of(entry.gid).c_str(), name_of(entry.gid_type));
  }
}

void show_device(ibv_device* device) {
  std::printf("%s: GUID %016" PRIx64 "\n", ibv_get_device_name(device),
              host_order(ibv_get_device_guid(device)));
  const std::unique_ptr<ibv_context, CloseDevice> context(ibv_open_device(device));
  if (context == nullptr) fail("ibv_open_device", errno);
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(context.get(), &attributes); error != 0)
    fail("ibv_query_device", error);
  std::printf("  at most: %d queue pairs of %d requests, %d completion queues, %d memory regions\n",
              attributes.max_qp, attributes.max_qp_wr, attributes.max_cq, attributes.max_mr);
  for (std::uint8_t number = 1; number <= attributes.phys_port_cnt; ++number)
    show_port(context.get(), number);
}

int run() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) fail("ibv_get_device_list", errno);
  std::printf("%d RDMA %s\n", count, count == 1 ? "device" : "devices");
  for (int i = 0; i < count; ++i) show_device(list[i]);
  ibv_free_device_list(list);
  return count > 0 ? 0 : 1;
}

}  // namespace
}  // namespace examples

int main() { return examples::run(); }
