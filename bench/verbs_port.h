// Opens a device and connects its QPs with each other, for the programs of the bench.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace bench {

inline constexpr std::uint32_t kFirstPsn = 1;

[[noreturn]] inline void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

inline bool is_ipv4(const ibv_gid& gid) {
  static const std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

struct Port {
  ibv_context* context = nullptr;
  ibv_gid gid{};
  std::uint8_t gid_index = 0;
};

inline Port open_port() {
  Port port;
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  for (int i = 0; i < count && port.context == nullptr; ++i) {
    if (std::string(ibv_get_device_name(list[i])).compare(0, 5, "rrdma") == 0)
      port.context = ibv_open_device(list[i]);
  }
  if (port.context == nullptr) fail("no device rrdma*");
  ibv_free_device_list(list);
  for (int index = 0; ibv_query_gid(port.context, 1, index, &port.gid) == 0; ++index) {
    port.gid_index = static_cast<std::uint8_t>(index);
    if (is_ipv4(port.gid)) return port;
  }
  fail("no IPv4 GID");
}

// RESET to RTS, towards a QP of the same device.
inline void connect(const Port& port, ibv_qp* qp, std::uint32_t peer) {
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  if (ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
    fail("INIT");
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = IBV_MTU_4096;
  ready.dest_qp_num = peer;
  ready.rq_psn = kFirstPsn;
  ready.max_dest_rd_atomic = 1;
  ready.min_rnr_timer = 12;
  ready.ah_attr.is_global = 1;
  ready.ah_attr.port_num = 1;
  ready.ah_attr.grh.dgid = port.gid;
  ready.ah_attr.grh.sgid_index = port.gid_index;
  ready.ah_attr.grh.hop_limit = 1;
  const int for_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(qp, &ready, for_rtr) != 0) fail("RTR");
  ready.qp_state = IBV_QPS_RTS;
  ready.timeout = 18;
  ready.retry_cnt = 7;
  ready.rnr_retry = 7;
  ready.sq_psn = kFirstPsn;
  ready.max_rd_atomic = 1;
  const int for_rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC;
  if (ibv_modify_qp(qp, &ready, for_rts) != 0) fail("RTS");
}

}  // namespace bench
