#include "requests.h"

#include <string>

#include "verdict.h"

namespace proof {
namespace {

ibv_sge element_of(const Part& part) {
  return {.addr = reinterpret_cast<std::uintptr_t>(part.region.addr) + part.offset,
          .length = part.octets,
          .lkey = part.region.lkey};
}

}  // namespace

void post_send(ibv_qp* qp, const Part& part, std::uint64_t wr_id) {
  ibv_sge element = element_of(part);
  ibv_send_wr request{};
  request.wr_id = wr_id;
  request.sg_list = &element;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(qp, &request, &bad); error != 0)
    fail("ibv_post_send: " + std::to_string(error));
}

void post_receive(ibv_qp* qp, const Part& part, std::uint64_t wr_id) {
  ibv_sge element = element_of(part);
  ibv_recv_wr request{};
  request.wr_id = wr_id;
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(qp, &request, &bad); error != 0)
    fail("ibv_post_recv: " + std::to_string(error));
}

}  // namespace proof
