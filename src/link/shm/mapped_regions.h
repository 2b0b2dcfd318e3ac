// MappedRegions: maps memory that another process keeps in files. A region that lies in a file
// (DirectKey::file) is mapped on first use, writable only if its rights are. It is unmapped when its row in
// the table is no longer valid, or when another region needs its slot.
//
// The other process may be hostile, although it belongs to our user. Its file is used only if it is a regular
// file in memory, and with the access mode of its descriptor. Every access runs under the fault guard,
// because the other process can truncate the file. It can also change a row without changing the row's
// sequence. The first address and the length therefore belong to the mapping, and every access is checked
// against them, not against the row.
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

  // The local address of these bytes of the region. Null if they are in no file, or outside of what could be
  // mapped. Calls `is_the_same` after the file was borrowed, to check that the process is still the owner of
  // the table.
  template <typename Same>
  [[nodiscard]] std::uint8_t* find(const Found<DirectKey>& key, std::uint64_t address, std::uint64_t length,
                                   Same is_the_same) {
    if (key.value.file == 0) return nullptr;
    if (regions_.empty()) regions_.resize(kRegions);
    Region& region = regions_[(key.value.rkey.value >> 8) % regions_.size()];
    if (region.sequence != key.sequence || region.seen != key.seen) {
      map(region, key);
      if (region.first != nullptr && !is_the_same()) release(region);
    }
    return region.at(address, length);
  }

 private:
  struct Region {
    const std::atomic<std::uint64_t>* sequence = nullptr;  // the row that it was mapped for
    std::uint64_t seen = 0;
    std::uint8_t* first = nullptr;  // null: cannot be mapped
    std::uint64_t address = 0;      // of its first byte in requests, when it was mapped
    std::uint64_t length = 0;
    void* mapping = nullptr;
    std::size_t octets = 0;
    [[nodiscard]] std::uint8_t* at(std::uint64_t wanted, std::uint64_t count) const {
      const bool within = wanted >= address && count <= length && wanted - address <= length - count;
      return first != nullptr && within ? first + (wanted - address) : nullptr;
    }
  };
  void map(Region& region, const Found<DirectKey>& key);
  static void release(Region& region);

  static constexpr std::size_t kRegions = 64;
  pid_t pid_;
  std::vector<Region> regions_;  // empty until the first use, to keep the hot data around it compact
};

}  // namespace rrdma::link
