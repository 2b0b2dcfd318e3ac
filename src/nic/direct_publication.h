// DirectPublication: what peers on this host may do to our memory by themselves, kept true. They read and write
// what lies in the table of ShmLink, as a NIC's DMA would, so every key and every QP that opens, changes or closes is
// told there first. Of memory that lies in a file they are told the file, and may map it.
//
// Threads: all calls under the lane's lock, or the locks of all; but of windows it hears from whichever lane binds them, and
// leaves alone those that are not for its own QPs.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "host/memory/shared_files.h"
#include "link/shm/shm_link.h"
#include "nic/shm_peers.h"
#include "nic/slot/lane_slot.h"
#include "objects/memory.h"
#include "transport/engine.h"

namespace rrdma::nic {

class DirectPublication final : public objects::KeyListener {
 public:
  // All outlive this.
  DirectPublication(link::ShmLink& shm, const ShmPeers& peers, const LaneSlot& slot)
      : shm_(shm), peers_(peers), slot_(slot) {}

  void handle_qp_changed(const transport::QueuePair& qp, bool destroyed);
  void on_region_opened(const objects::MemoryRegion& region) override;
  void on_window_opened(const objects::MemoryWindow& window) override;
  void on_region_closed(const objects::MemoryRegion& region) override;
  void on_window_closed(const objects::MemoryWindow& window) override;
  // The lane is one of several: packets carry what is for windows of type 1, which are everybody's.
  void publish_own_windows_only(const objects::MemoryTable& memory);

 private:
  [[nodiscard]] bool is_for_us(const objects::MemoryWindow& window) const {
    return window.type == objects::WindowType::kType2 ? slot_.holds(window.bound_through) : alone_;
  }

  // The file that the region lies in, if it does, `skip` octets behind its first one.
  void tell_file(link::DirectKey& key, const objects::MemoryRegion& region, std::uint64_t skip) const;

  link::ShmLink& shm_;
  const ShmPeers& peers_;
  const LaneSlot& slot_;
  host::SharedFiles shared_files_;
  std::unordered_map<std::uint32_t, host::SharedFiles::Place> places_;  // by key, of regions in such files
  bool alone_ = true;  // changes under the locks of all lanes
};

}  // namespace rrdma::nic
