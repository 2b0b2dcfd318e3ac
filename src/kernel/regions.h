// Regions and protection domains of the kernel's device. User memory is mapped from the kernel; it is
// ordinary memory here. Kernel memory is of the kind KernelMemory: all grants of a domain are one region,
// each fast registration one.
//
// Threads: everything under the locks of all lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "kernel/channel.h"
#include "kernel/rxe_layout.h"
#include "objects/memory.h"
#include "objects/work_queue.h"

namespace rrdma::kernel {

class Regions {
 public:
  // `kind`: the number of KernelMemory in the table. Both must outlive this object.
  Regions(const Channel& channel, objects::MemoryTable& table, std::uint8_t kind)
      : channel_(channel), table_(table), kind_(kind) {}

  // Created when it is first named.
  [[nodiscard]] objects::ProtectionDomain& domain(std::uint32_t handle);
  void end_domain(std::uint32_t handle);
  // The key of all grants in this domain; 0: there are too many keys.
  [[nodiscard]] std::uint32_t grant_key(std::uint32_t domain);

  // Return an errno, negative; the key in `key`.
  [[nodiscard]] int add(std::uint32_t handle, const rrdma_register& form, std::uint32_t& key);
  [[nodiscard]] int add_fast(std::uint32_t handle, const rrdma_register& form, std::uint32_t& key);
  // Windows that are bound to it lose their memory.
  [[nodiscard]] int remove(std::uint32_t handle);
  [[nodiscard]] int add_window(std::uint32_t handle, const rrdma_window& form, std::uint32_t& key);
  [[nodiscard]] int remove_window(std::uint32_t handle);
  // A kernel user registers the pages that it has mapped: fills a request that does so when the engine comes
  // to it. False if there is no such region. Under the lock of the lane.
  [[nodiscard]] bool fill_renewal(const RxeSend& from, objects::SendEntry& to) const;

 private:
  struct Domain {
    objects::ProtectionDomain domain;
    objects::MemoryRegion* grants = nullptr;
  };
  struct Region {
    Mapping memory;
    objects::MemoryRegion* region = nullptr;
    bool fast = false;
  };

  const Channel& channel_;
  objects::MemoryTable& table_;
  const std::uint8_t kind_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Domain>> domains_;
  std::unordered_map<std::uint32_t, Region> regions_;
  std::unordered_map<std::uint32_t, objects::MemoryWindow*> windows_;
};

}  // namespace rrdma::kernel
