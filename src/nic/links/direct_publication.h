// DirectPublication: keeps the table of ShmLink up to date, through which peers on this host access our
// memory directly, like a NIC's DMA. Every key and QP that is created, changed or removed is recorded there
// first. For memory that lies in a file, the table names the file, and peers may map it.
//
// Threads: all calls under the lane's lock, or the locks of all lanes. Window events arrive from whichever
// lane binds the window; it ignores those that are not for its own QPs.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/instant.h"
#include "host/memory/shared_files.h"
#include "link/shm/shm_link.h"
#include "nic/links/lane_slot.h"
#include "nic/links/shm_peers.h"
#include "objects/memory.h"
#include "objects/memory_kind.h"
#include "transport/engine.h"

namespace rrdma::nic {

class DirectPublication final : public objects::KeyListener {
 public:
  // All must outlive this object.
  DirectPublication(link::ShmLink& shm, const ShmPeers& peers, const LaneSlot& slot,
                    const objects::MemoryTable& memory)
      : shm_(shm), peers_(peers), slot_(slot), memory_(memory) {}

  void handle_qp_changed(const transport::QueuePair& qp, bool destroyed);
  void on_region_opened(const objects::MemoryRegion& region) override;
  void on_window_opened(const objects::MemoryWindow& window) override;
  void on_region_closed(const objects::MemoryRegion& region) override;
  void on_window_closed(const objects::MemoryWindow& window) override;
  // Revokes exported memory that the program has freed, and looks after copies that take long. True if some
  // exported memory is left: call it again after kReviewInterval.
  bool review_exports();
  static constexpr Duration kReviewInterval = milliseconds(20);
  // The process has several lanes. Packets then carry operations on type 1 windows, which belong to all
  // lanes.
  void publish_own_windows_only(const objects::MemoryTable& memory);

 private:
  [[nodiscard]] bool is_for_us(const objects::MemoryWindow& window) const {
    return window.type == objects::WindowType::kType2 ? slot_.holds(window.bound_through) : alone_;
  }

  // Adds the file that holds the region, if any, at `skip` bytes behind its first one.
  void tell_file(link::DirectKey& key, const objects::MemoryRegion& region, std::uint64_t skip) const;

  link::ShmLink& shm_;
  const ShmPeers& peers_;
  const LaneSlot& slot_;
  const objects::MemoryTable& memory_;
  host::SharedFiles shared_files_;
  std::unordered_map<std::uint32_t, host::SharedFiles::Place> places_;  // by key, of regions in such files
  // By key, of regions in memory that the CPU cannot touch. Peers read the descriptions.
  std::unordered_map<std::uint32_t, std::unique_ptr<objects::FarExport>> exports_;
  bool alone_ = true;  // changes under the locks of all lanes
};

}  // namespace rrdma::nic
