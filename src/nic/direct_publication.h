// DirectPublication: what peers on this host may do to our memory by themselves, kept true. They read and write
// what lies in the table of ShmLink, as a NIC's DMA would, so every key and every QP that opens, changes or closes is
// told there first.
//
// Threads: all calls under the lane's lock.
#pragma once

#include "link/shm/shm_link.h"
#include "nic/shm_peers.h"
#include "objects/memory.h"
#include "transport/engine.h"

namespace rrdma::nic {

class DirectPublication final : public objects::KeyListener {
 public:
  // All outlive this.
  DirectPublication(link::ShmLink& shm, const ShmPeers& peers) : shm_(shm), peers_(peers) {}

  void handle_qp_changed(const transport::QueuePair& qp, bool destroyed);
  void on_region_opened(const objects::MemoryRegion& region) override;
  void on_window_opened(const objects::MemoryWindow& window) override;
  void on_key_closed(wire::RKey key) override;

 private:
  link::ShmLink& shm_;
  const ShmPeers& peers_;
};

}  // namespace rrdma::nic
