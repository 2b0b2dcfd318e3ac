// A completion as the program reads it.
#pragma once

#include <infiniband/verbs.h>

#include "objects/completion_queue.h"

namespace rrdma::verbs {

inline void translate(const objects::Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = from.vendor_err;
  to.byte_len = from.byte_length;
  to.imm_data = from.immediate_or_key;
  to.qp_num = from.qpn.value;
  to.src_qp = from.source_qpn.value;
  to.wc_flags = from.flags;
  to.pkey_index = 0;
  to.slid = 0;
  to.sl = from.service_level;
  to.dlid_path_bits = 0;
}

}  // namespace rrdma::verbs
