// Converts the attributes of ibv_modify_qp to the engine's. The path is resolved elsewhere.
#pragma once

#include <infiniband/verbs.h>

#include "transport/qp/qp_state.h"

namespace rrdma::verbs {

inline transport::QpAttributes attributes_of(const ibv_qp_attr& from) {
  transport::QpAttributes to;
  to.state = static_cast<transport::QpState>(from.qp_state);
  to.current_state = static_cast<transport::QpState>(from.cur_qp_state);
  to.drain_notify = from.en_sqd_async_notify != 0;
  to.access_flags = from.qp_access_flags;
  to.pkey_index = from.pkey_index;
  to.port = from.port_num;
  to.qkey = {from.qkey};
  to.path_mtu = static_cast<std::uint8_t>(from.path_mtu);
  to.timeout = from.timeout;
  to.retry_count = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.min_rnr_timer = from.min_rnr_timer;
  to.receive_psn = wire::Psn(from.rq_psn);
  to.send_psn = wire::Psn(from.sq_psn);
  to.max_reads = from.max_rd_atomic;
  to.max_destination_reads = from.max_dest_rd_atomic;
  to.destination = wire::Qpn(from.dest_qp_num);
  return to;
}

}  // namespace rrdma::verbs
