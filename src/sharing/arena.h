// Arena: memory of one process that another process of this host can map. It is a window of addresses over
// one memfd: byte n of the window is byte n of the file. Allocation maps whole pages of the file there;
// freeing turns them into a hole again.
//
// It has no lock; the hooks (hooks.cc) do. Its bookkeeping uses malloc, which the hooks do not intercept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/owned_fd.h"

namespace rrdma::sharing {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Reserves the addresses and creates the file. On false, every later allocation fails.
  bool open(std::size_t octets);

  // Zeroed memory with this alignment (a power of two); null if there is no room, or the file is no longer
  // ours.
  [[nodiscard]] void* take(std::size_t octets, std::size_t alignment);
  // Frees the whole allocation at `at`; false if none begins there.
  bool give_back(void* at);
  // Frees any whole pages of the window, allocated or not.
  void give_back(void* at, std::size_t octets);

  [[nodiscard]] bool has(const void* at) const {
    return static_cast<const std::uint8_t*>(at) - base_ < static_cast<std::ptrdiff_t>(octets_) && at >= base_;
  }
  // The length of the allocation at `at`; 0 if none begins there.
  [[nodiscard]] std::size_t length_at(const void* at) const;
  // From now on, the pages there read as zeros.
  bool clear(void* at, std::size_t octets);

  // In a child after fork(): makes the memory a private copy. Every later allocation fails.
  bool become_private();

 private:
  [[nodiscard]] std::uint64_t offset_of(const void* at) const {
    return static_cast<std::uint64_t>(static_cast<const std::uint8_t*>(at) - base_);
  }
  [[nodiscard]] std::optional<std::uint64_t> find_free(std::size_t octets, std::size_t alignment) const;
  [[nodiscard]] bool is_our_file() const;
  void occupy(std::uint64_t offset, std::size_t octets);
  void vacate(std::uint64_t offset, std::size_t octets);
  bool copy_privately(std::uint64_t offset, std::size_t octets) const;

  OwnedFd file_;
  std::uint64_t inode_ = 0;
  std::uint8_t* base_ = nullptr;
  std::size_t octets_ = 0;
  std::map<std::uint64_t, std::size_t> taken_;  // offset, length in bytes
  std::map<std::uint64_t, std::size_t> free_;   // likewise; never two adjacent entries
};

}  // namespace rrdma::sharing
