// The two requests that most programs post: a signaled SEND from, and a receive into, a part of one region.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace proof {

struct Part {
  const ibv_mr& region;
  std::size_t offset = 0;
  std::uint32_t octets = 0;
};

void post_send(ibv_qp* qp, const Part& part, std::uint64_t wr_id);
void post_receive(ibv_qp* qp, const Part& part, std::uint64_t wr_id);

}  // namespace proof
