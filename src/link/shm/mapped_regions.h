// MappedRegions: maps memory that another process keeps in files. A region that lies in a file (DirectKey::file) is
// mapped on first use, writable only if its rights are. It is unmapped when its row in the table is no longer valid,
// or when another region needs its slot.
//
// The other process may be hostile, although it belongs to our user. Its file is used only if it is a regular file in
// memory, and with the access mode of its descriptor. Every access runs under the fault guard, because the other
// process can truncate the file.
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

  // The local address of the region's first byte. Null if it is in no file, or cannot be mapped, which is permanent.
  // Calls `is_the_same` after the file was borrowed, to check that the process is still the owner of the table.
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
    const std::atomic<std::uint64_t>* sequence = nullptr;  // the row that it was mapped for
    std::uint64_t seen = 0;
    std::uint8_t* first = nullptr;  // null: cannot be mapped
    void* mapping = nullptr;
    std::size_t octets = 0;
  };
  void map(Region& region, const Found<DirectKey>& key);
  static void release(Region& region);

  static constexpr std::size_t kRegions = 64;
  pid_t pid_;
  std::vector<Region> regions_;  // empty until the first use, to keep the hot data around it compact
};

}  // namespace rrdma::link
