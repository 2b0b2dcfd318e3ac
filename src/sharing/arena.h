// Arena: memory of one process that another one of this host can map. It is a window of addresses over one memfd, octet n
// of the window being octet n of the file; what is taken from it is mapped there, whole pages at a time, and what is given
// back is a hole again.
//
// It has no lock: the hooks (hooks.cc) do. It takes its own notes with malloc, which the hooks leave alone.
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

  // Reserves the addresses and makes the file. False where there can be none; then nothing is ever taken.
  bool open(std::size_t octets);

  // Zeroed memory, aligned so (a power of two); null where there is no room, or the file is no longer ours.
  [[nodiscard]] void* take(std::size_t octets, std::size_t alignment);
  // What was taken at `at`, to its end; false: nothing begins there.
  bool give_back(void* at);
  // Any whole pages of the window, taken or not.
  void give_back(void* at, std::size_t octets);

  [[nodiscard]] bool has(const void* at) const {
    return static_cast<const std::uint8_t*>(at) - base_ < static_cast<std::ptrdiff_t>(octets_) && at >= base_;
  }
  // How long what begins at `at` is; 0: nothing begins there.
  [[nodiscard]] std::size_t length_at(const void* at) const;
  // The pages there read as zeroes from now on.
  bool clear(void* at, std::size_t octets);

  // In a child after fork(): memory as it was, and nobody else's. From then on nothing is taken.
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
  std::map<std::uint64_t, std::size_t> taken_;  // offset, octets
  std::map<std::uint64_t, std::size_t> free_;   // the same, never two side by side
};

}  // namespace rrdma::sharing
