// MappedRegions: memory of another process that it shares with whoever may open its files, mapped here. A region that lies in
// a file (DirectKey::file) is mapped when it is used first, writable only where its rights are, and unmapped when its row in the
// table no longer holds or its place is wanted.
//
// The other process may be hostile, though it is of our user: what it names is used only if it is a regular file in memory, and as it has it open,
// and every access goes under the fault guard, since it may cut the file.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "link/shm/direct_table.h"

namespace rrdma::link {

class MappedRegions {
 public:
  explicit MappedRegions(pid_t pid) : pid_(pid) {}
  MappedRegions(MappedRegions&&) noexcept = default;
  MappedRegions& operator=(MappedRegions&&) = delete;
  ~MappedRegions();

  // Where the region's first octet lies here; null: it is in no file, or cannot be mapped, and never will be.
  // `is_the_same`, whether the process is still the one that the table is of, is asked after its file was borrowed.
  template <typename Same>
  [[nodiscard]] std::uint8_t* find(const Found<DirectKey>& key, Same is_the_same) {
    if (key.value.file == 0) return nullptr;
    if (regions_.empty()) regions_.resize(kRegions);
    Region& region = regions_[(key.value.rkey.value >> 8) % regions_.size()];
    if (region.sequence == key.sequence && region.seen == key.seen) return region.first;
    map(region, key);
    if (region.first != nullptr && !is_the_same()) release(region);
    return region.first;
  }

 private:
  struct Region {
    const std::atomic<std::uint64_t>* sequence = nullptr;  // the row that it was made for
    std::uint64_t seen = 0;
    std::uint8_t* first = nullptr;  // null: cannot be mapped
    void* mapping = nullptr;
    std::size_t octets = 0;
  };
  void map(Region& region, const Found<DirectKey>& key);
  static void release(Region& region);

  static constexpr std::size_t kRegions = 64;
  pid_t pid_;
  std::vector<Region> regions_;  // none until there is one: it lies amid what every message needs
};

}  // namespace rrdma::link
