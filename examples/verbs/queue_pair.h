// A reliable queue pair without rdma_cm: created, then moved through its states. INIT needs the port and the
// access rights, RTR the peer, RTS the timers of the sender.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "examples/verbs/adapter.h"
#include "examples/verbs/channel.h"

namespace examples {

struct DestroyQueuePair {
  void operator()(ibv_qp* queue_pair) const { ibv_destroy_qp(queue_pair); }
};
using QueuePair = std::unique_ptr<ibv_qp, DestroyQueuePair>;

// The data that the other end needs before it can send packets. Its text form is one line on a TCP
// connection.
struct Endpoint {
  std::uint32_t queue_pair = 0;
  std::uint32_t first_psn = 0;
  ibv_gid gid{};
  ibv_mtu mtu = IBV_MTU_256;
  RemoteMemory memory;
};

// Returns it in INIT, with the channel's receives posted.
QueuePair create_queue_pair(const Adapter& adapter, Channel& channel, Narrator& narrator);
// INIT to RTR to RTS.
void connect(ibv_qp* queue_pair, const Adapter& adapter, const Endpoint& own, const Endpoint& peer,
             Narrator& narrator);
Endpoint describe(const ibv_qp* queue_pair, const Adapter& adapter, const Channel& channel);

}  // namespace examples
