// The queries of the device and its port.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "host/addresses/lid.h"
#include "host/clock.h"
#include "host/explain.h"
#include "preload/verbs/device/context.h"
#include "preload/verbs/device/device_attributes.h"
#include "preload/verbs/device/device_list.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/device/port_speed.h"
#include "preload/verbs/injected_calls.h"
#include "preload/verbs/real_library.h"

#undef ibv_query_port

namespace rrdma::verbs {
namespace {

constexpr std::uint32_t kOdpReliable = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                                       IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
                                       IBV_ODP_SUPPORT_SRQ_RECV;
constexpr std::uint32_t kOdpUnreliable =
    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
constexpr std::uint32_t kOdpDatagram = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
constexpr std::uint64_t kNanosecondsPerTickKhz = 1'000'000;  // timestamps count nanoseconds

void fill_device(Context& context, ibv_device_attr& attr) {
  const host::DeviceProperties& properties = context.nic_device->identity().properties;
  const auto limit = [&](const char* name, std::uint32_t offered) {
    return static_cast<int>(properties.limit(name, offered));
  };
  attr = {};
  std::strncpy(attr.fw_ver, properties.firmware.empty() ? RRDMA_VERSION : properties.firmware.c_str(),
               sizeof attr.fw_ver - 1);
  attr.node_guid = attr.sys_image_guid = big_endian(context.nic_device->identity().guid);
  attr.max_mr_size = ~std::uint64_t{0};
  attr.page_size_cap = 0xfffffffffffff000;
  attr.vendor_id = properties.vendor.value_or(kVendorId);
  attr.vendor_part_id = properties.part.value_or(kVendorPart);
  attr.hw_ver = 1;
  attr.max_qp = limit("max_qp", kQpMax);
  attr.max_qp_wr = limit("max_qp_wr", kQueueDepthMax);
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
                          IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS |
                          IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC;
  attr.max_sge = attr.max_sge_rd = limit("max_sge", kSgeMax);
  attr.max_cq = limit("max_cq", kCqMax);
  attr.max_cqe = limit("max_cqe", kCqeMax);
  attr.max_mr = limit("max_mr", kKeysMax);
  attr.max_mw = kKeysMax;
  attr.max_pd = limit("max_pd", kPdMax);
  attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = transport::kReadsMax;
  attr.max_res_rd_atom = kQpMax * transport::kReadsMax;
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mcast_grp = kMulticastGroupsMax;
  attr.max_mcast_qp_attach = kQpMax;
  attr.max_total_mcast_qp_attach = kMulticastGroupsMax * 16;
  attr.max_ah = limit("max_ah", kAhMax);
  attr.max_srq = limit("max_srq", kSrqMax);
  attr.max_srq_wr = kQueueDepthMax;
  attr.max_srq_sge = kSgeMax;
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = 1;
}

}  // namespace

int query_device(ibv_context* abi, ibv_device_attr* attr) {
  if (const int error = inject("ibv_query_device", abi); error != 0) return error;
  fill_device(own(abi), *attr);
  return 0;
}

int query_device_ex(ibv_context* abi, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t size) {
  if (const int error = inject("ibv_query_device_ex", abi); error != 0) return error;
  if (input != nullptr && input->comp_mask != 0) {
    return host::fail(EINVAL, "ibv_query_device_ex", "input->comp_mask has unknown bits; it must be 0.");
  }
  ibv_device_attr_ex full{};
  fill_device(own(abi), full.orig_attr);
  full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  full.odp_caps.per_transport_caps = {kOdpReliable, kOdpUnreliable, kOdpDatagram};
  full.xrc_odp_caps = kOdpReliable;
  full.completion_timestamp_mask = ~std::uint64_t{0};
  full.hca_core_clock = kNanosecondsPerTickKhz;
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
  full.cq_mod_caps = {kCqModerationCountMax, kCqModerationCountMax};
  full.max_dm_size = kDeviceMemoryMax;
  full.phys_port_cnt_ex = 1;
  if (size < sizeof full.orig_attr)
    return host::fail(EINVAL, "ibv_query_device_ex", "the structure is too small.");
  std::memset(attr, 0, size);
  std::memcpy(attr, &full, std::min(size, sizeof full));
  return 0;
}

int query_port(ibv_context* abi, std::uint8_t port, ibv_port_attr* attr, std::size_t size) {
  if (const int error = inject("ibv_query_port", abi); error != 0) return error;
  if (port != kPort)
    return host::fail(EINVAL, "ibv_query_port",
                      formatted("port_num is {}, and the device has one port, number 1.", port));
  const Context& context = own(abi);
  const host::PortStatus status = context.nic_device->port();
  ibv_port_attr full{};
  full.state = status.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  full.max_mtu = IBV_MTU_4096;
  full.active_mtu = static_cast<ibv_mtu>(status.mtu_code);
  full.gid_tbl_len = kGidTableLength;
  full.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  full.max_msg_sz = transport::kMessageOctetsMax;
  full.pkey_tbl_len = 1;
  full.lid =
      context.runtime->settings().lid ? host::lid_of_port(context.nic_device->gids()) : std::uint16_t{0};
  full.max_vl_num = 1;
  full.phys_state = status.up ? 5 : 3;  // LinkUp, Disabled
  full.link_layer = IBV_LINK_LAYER_ETHERNET;
  const PortSpeed speed = port_speed_of(status.speed_mbps != 0 ? status.speed_mbps : 100'000);
  full.active_width = status.width == 0 ? speed.width : width_code(status.width);
  full.active_speed = speed.speed;
  std::memset(attr, 0, size);
  std::memcpy(attr, &full, std::min(size, sizeof full));
  return 0;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) == 0) {
    values->comp_mask = 0;
    return 0;
  }
  const Instant now = host::now();
  values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  values->raw_clock = {.tv_sec = now.ns / 1'000'000'000, .tv_nsec = now.ns % 1'000'000'000};
  return 0;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  if (!is_own(context)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_query_device, "IBVERBS_1.1", context, attr);
  return query_device(context, attr);
}

// The structure of older programs ends with link_layer.
RRDMA_VERBS int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attr) {
  if (!is_own(context)) RRDMA_PASS_ON(EOPNOTSUPP, ibv_query_port, "IBVERBS_1.1", context, port, attr);
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, link_layer) + 1);
}
