// FarRegions: regions of another process that lie in memory no CPU can touch (DirectKey::far), opened here. A
// region is opened on first use, and closed when its row in the table is no longer valid, when another region
// needs its slot, or when the peer is gone. As in mapped_regions.h, the bounds belong to the opened region,
// not to the row.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "link/shm/direct_table.h"
#include "objects/far_memory.h"

namespace rrdma::link {

class FarRegions {
 public:
  // `copier` outlives it; null: none can be opened.
  FarRegions(pid_t pid, objects::FarCopier* copier) : pid_(pid), copier_(copier) {}

  struct Place {
    objects::FarMapping* mapping = nullptr;  // null: cannot be reached
    std::uint64_t at = 0;
  };
  // Calls `is_the_same` after the region was opened, to check that the process is still the owner of the
  // table. REQUIRES: key.value.far.
  template <typename Same>
  [[nodiscard]] Place find(const Found<DirectKey>& key, std::uint64_t address, std::uint64_t length,
                           Same is_the_same) {
    if (copier_ == nullptr) return {};
    if (regions_.empty()) regions_.resize(kRegions);
    Region& region = regions_[(key.value.rkey.value >> 8) % regions_.size()];
    const bool stale = region.mapping != nullptr && region.mapping->is_stale();
    if (region.sequence != key.sequence || region.seen != key.seen || stale) {
      open(region, key);
      if (region.mapping != nullptr && !is_the_same()) region.mapping.reset();
    }
    return region.at(address, length);
  }

 private:
  struct Region {
    const std::atomic<std::uint64_t>* sequence = nullptr;  // the row that it was opened for
    std::uint64_t seen = 0;
    std::uint64_t address = 0;  // of its first byte in requests
    std::uint64_t length = 0;
    std::unique_ptr<objects::FarMapping> mapping;
    [[nodiscard]] Place at(std::uint64_t wanted, std::uint64_t count) const {
      const bool within = wanted >= address && count <= length && wanted - address <= length - count;
      return within ? Place{mapping.get(), wanted - address} : Place{};
    }
  };
  void open(Region& region, const Found<DirectKey>& key);

  static constexpr std::size_t kRegions = 64;
  pid_t pid_;
  objects::FarCopier* copier_;
  std::vector<Region> regions_;
};

}  // namespace rrdma::link
