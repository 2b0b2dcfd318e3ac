// Address handles, and their derivation from a received datagram.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>

#include <cstring>
#include <mutex>

#include "base/format.h"
#include "host/addresses/gid_choice.h"
#include "host/addresses/lid.h"
#include "host/explain.h"
#include "preload/verbs/device/device_attributes.h"
#include "preload/verbs/device/gid_table.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/queues/address.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {

namespace {

// A program that forgets its GRH must fail here as on hardware, so LIDs count only on request.
int complete_from_lid(const char* call, const Context& context, const ibv_ah_attr& attr,
                      nic::PathRequest& request) {
  if (!context.runtime->settings().lid) {
    const int asked = context.empty_gid_asked;
    if (asked >= 0) {
      return host::fail(
          EINVAL, call,
          formatted("the address has is_global = 0, but RoCE addresses are GIDs. The program asked for "
                    "GID index {}, which is empty; {}.",
                    asked, host::usable_gids_text(context.nic_device->gids(), {})));
    }
    return host::fail(
        EINVAL, call,
        formatted(
            "the address has is_global = 0, but RoCE addresses are GIDs: set is_global = 1, grh.dgid and "
            "grh.sgid_index. With programs, choose a GID index (-g, -x or --gid-index): {}. Programs that "
            "know LIDs only: start both ends with `rrdma run --lid`.",
            host::usable_gids_text(context.nic_device->gids(), {})));
  }
  const host::Device& device = *context.nic_device;
  const auto route = host::route_by_lid(device.gids(), device.identity().interface, attr.dlid);
  if (!route) return host::fail(EINVAL, call, route.error());
  request.remote = route->remote;
  request.local_gid_index = route->local_gid_index;
  return 0;
}

void take_grh(const ibv_global_route& grh, nic::PathRequest& request) {
  request.remote = gid_of(grh.dgid);
  request.local_gid_index = grh.sgid_index;
  request.flow_label = grh.flow_label & IB_GRH_FLOWLABEL_MASK;
  request.hop_limit = grh.hop_limit;
  request.traffic_class = grh.traffic_class;
}

}  // namespace

int path_request_of(const char* call, const Context& context, const ibv_ah_attr& attr,
                    nic::PathRequest& request) {
  if (attr.port_num != kPort)
    return host::fail(
        EINVAL, call,
        formatted("port_num of the address is {}, and the device has one port, number 1.", attr.port_num));
  request.service_level = attr.sl;
  if (attr.is_global == 0) return complete_from_lid(call, context, attr, request);
  if (attr.grh.sgid_index >= kGidTableLength)
    return host::fail(EINVAL, call,
                      formatted("sgid_index {} is beyond the GID table of {} entries; {}.",
                                attr.grh.sgid_index, kGidTableLength,
                                host::usable_gids_text(context.nic_device->gids(), gid_of(attr.grh.dgid))));
  take_grh(attr.grh, request);
  return 0;
}

namespace {

// The GRH of a received datagram, as it precedes the payload. An IPv4 header occupies its last 20 bytes.
struct Route {
  wire::Gid source;
  wire::Gid destination;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
};

wire::Gid gid_of_ipv4_at(const std::uint8_t* octets) {
  return wire::gid_of_ipv4({octets[0], octets[1], octets[2], octets[3]});
}

bool read_route(const ibv_grh& grh, Route& route) {
  const auto* octets = reinterpret_cast<const std::uint8_t*>(&grh);
  constexpr std::size_t kIpv4At = 20;
  if (octets[0] >> 4 == 6) {
    route.source = gid_of(grh.sgid);
    route.destination = gid_of(grh.dgid);
    const std::uint32_t word = ntohl(grh.version_tclass_flow);
    route.flow_label = word & IB_GRH_FLOWLABEL_MASK;
    route.traffic_class = static_cast<std::uint8_t>(word >> 20);
    route.hop_limit = grh.hop_limit;
    return true;
  }
  if (octets[kIpv4At] >> 4 != 4) return false;
  route.traffic_class = octets[kIpv4At + 1];
  route.hop_limit = octets[kIpv4At + 8];
  route.source = gid_of_ipv4_at(octets + kIpv4At + 12);
  route.destination = gid_of_ipv4_at(octets + kIpv4At + 16);
  return true;
}

// Without a GRH a LID names the destination, and ours is 0 (but see host/addresses/lid.h). librdmacm means
// this port when it sends there (datagram rsockets do). From other callers it is a forgotten GRH, which must
// be refused.
bool names_itself(const ibv_ah_attr& attr, const void* caller) {
  if (attr.is_global != 0 || attr.dlid != 0 || attr.port_num != kPort) return false;
  Dl_info info{};
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "librdmacm") != nullptr;
}

ibv_ah_attr address_of_itself(const Context& context) {
  ibv_ah_attr attr{};
  attr.port_num = kPort;
  for (const host::GidEntry& entry : context.nic_device->gids()) {
    if (!entry.valid) continue;
    attr.is_global = 1;
    std::memcpy(attr.grh.dgid.raw, entry.gid.octets.data(), sizeof attr.grh.dgid.raw);
    attr.grh.sgid_index = static_cast<std::uint8_t>(entry.index);
    if (entry.gid.is_ipv4()) break;
  }
  return attr;
}

Ah* create_ah(const char* call, ibv_pd* pd, const ibv_ah_attr& attr) {
  Context& context = own(pd->context);
  if (context.forked()) {
    refuse_forked(call);
    return nullptr;
  }
  Place place(call, ObjectKind::kAh, pd->context);
  if (!place.granted()) return nullptr;
  nic::PathRequest request;
  request.datagram = true;
  if (path_request_of(call, context, attr, request) != 0) return nullptr;
  auto path = context.lanes->first().resolve(*context.nic_device, request);
  if (!path) {
    host::fail(path.error().error, call, path.error().sentence);
    return nullptr;
  }
  auto* ah = new Ah{};
  ah->context = pd->context;
  ah->pd = pd;
  static std::atomic<std::uint32_t> next_handle{1};
  ah->ibv_ah::handle = next_handle.fetch_add(1, std::memory_order_relaxed);
  ah->handle = new objects::AddressHandle{.pd = &own(pd).root(), .path = *path};
  std::lock_guard lock(context.lanes->first().mutex());
  ++own(pd).root().users;
  place.settle<ibv_ah>(ah);
  return ah;
}

}  // namespace
}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  const ObjectValidity validity = validity_of(pd);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(nullptr, ibv_create_ah, "IBVERBS_1.1", pd, attr);
  if (refuse_unless_live("ibv_create_ah", pd, validity) != 0) return nullptr;
  const bool itself = names_itself(*attr, __builtin_return_address(0));
  return create_ah("ibv_create_ah", pd, itself ? address_of_itself(own(pd->context)) : *attr);
}

RRDMA_VERBS int ibv_destroy_ah(ibv_ah* abi) {
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(EOPNOTSUPP, ibv_destroy_ah, "IBVERBS_1.1", abi);
  if (const int error = refuse_unless_live("ibv_destroy_ah", abi, validity); error != 0) return error;
  Ah& ah = own(abi);
  Context& context = own(abi->context);
  if (context.forked()) return refuse_forked("ibv_destroy_ah");
  std::lock_guard lock(context.lanes->first().mutex());
  --own(ah.pd).root().users;
  ah.handle->destroy();
  bury(ah, abi);
  return 0;
}

RRDMA_VERBS int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                    ibv_ah_attr* attr) {
  constexpr const char* kCall = "ibv_init_ah_from_wc";
  if (!is_own(context)) RRDMA_PASS_ON(-1, ibv_init_ah_from_wc, "IBVERBS_1.1", context, port, wc, grh, attr);
  *attr = {};
  attr->port_num = port;
  // Not wc->sl: in the completion that field holds the kind of packet, and RoCE has no service levels.
  Route route;
  if ((wc->wc_flags & IBV_WC_GRH) == 0 || grh == nullptr || !read_route(*grh, route)) {
    host::fail(EINVAL, kCall, "the completion has no GRH: pass the first 40 bytes of the receive buffer.");
    return -1;
  }
  const int index = find_gid_index(*own(context).nic_device, route.destination);
  if (index < 0 && !route.destination.is_multicast()) {
    host::fail(EINVAL, kCall, "the datagram was sent to an address that the port no longer has.");
    return -1;
  }
  attr->is_global = 1;
  std::memcpy(attr->grh.dgid.raw, route.source.octets.data(), sizeof attr->grh.dgid.raw);
  attr->grh.sgid_index = static_cast<std::uint8_t>(index < 0 ? 0 : index);
  attr->grh.flow_label = route.flow_label;
  attr->grh.hop_limit = 0xff;
  attr->grh.traffic_class = route.traffic_class;
  return 0;
}

RRDMA_VERBS ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  const ObjectValidity validity = validity_of(pd);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_create_ah_from_wc, "IBVERBS_1.1", pd, wc, grh, port);
  if (refuse_unless_live("ibv_create_ah_from_wc", pd, validity) != 0) return nullptr;
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return create_ah("ibv_create_ah_from_wc", pd, attr);
}

// RRDMA writes no Ethernet header itself; the kernel finds the neighbour's address.
RRDMA_VERBS int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr, std::uint8_t* mac,
                                            std::uint16_t* vlan) {
  if (!is_own(context))
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_resolve_eth_l2_from_gid, "IBVERBS_1.1", context, attr, mac, vlan);
  nic::PathRequest request;
  if (const int error = path_request_of("ibv_resolve_eth_l2_from_gid", own(context), *attr, request);
      error != 0)
    return error;
  return resolve_ethernet(own(context), request.remote, mac, vlan);
}
