// Shared by the programs of these tests: checked steps, and opening a device by its name.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

[[noreturn]] inline void give_up(const char* step) {
  std::perror(step);
  std::exit(1);
}

template <typename T>
T* must(T* made, const char* step) {
  if (made == nullptr) give_up(step);
  return made;
}
inline void must(int error, const char* step) {
  if (error == 0) return;
  errno = error;
  give_up(step);
}

inline ibv_context* open_device(const char* name) {
  ibv_device** list = must(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = nullptr;
  for (ibv_device** device = list; *device != nullptr; ++device) {
    if (std::strcmp(name, ibv_get_device_name(*device)) == 0) context = ibv_open_device(*device);
  }
  ibv_free_device_list(list);
  return must(context, "no such device");
}

// The attributes of an RC queue pair that connects with QP `peer` at `gid`.
inline ibv_qp_attr connection(unsigned peer, const ibv_gid& gid, int gid_index, int rights) {
  ibv_qp_attr attributes{};
  attributes.port_num = 1;
  attributes.qp_access_flags = static_cast<unsigned>(rights);
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.timeout = 14;
  attributes.retry_cnt = attributes.rnr_retry = 7;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.dgid = gid;
  attributes.ah_attr.grh.sgid_index = static_cast<unsigned char>(gid_index);
  attributes.ah_attr.grh.hop_limit = 64;
  return attributes;
}

// From RESET to RTS.
inline void bring_up(ibv_qp* qp, ibv_qp_attr attributes) {
  attributes.qp_state = IBV_QPS_INIT;
  must(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
       "to INIT");
  attributes.qp_state = IBV_QPS_RTR;
  must(ibv_modify_qp(qp, &attributes,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
       "to RTR");
  attributes.qp_state = IBV_QPS_RTS;
  must(ibv_modify_qp(qp, &attributes,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC),
       "to RTS");
}
