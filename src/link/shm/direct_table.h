// DirectTable: what a process allows its peers to do to its memory by themselves. It lies in a memfd that
// only its owner can write; peers map it and look up keys and QPs there before every direct operation.
//
//   table = TableHeader, (page) key rows[kDirectRows], qp rows[kDirectRows]
//   row   = sequence, 7 words. published: sequence even and not 0. A row is found within kDirectProbes
//           rows from its hash in one of the tiers, or it is not in the table: then packets carry the request.
//
// Names are random, so rows lie anywhere in their tier: the first ones are small, so that a table of few rows touches few pages.
//
// The rules of a race: a peer says "in use" (in the channel, see layout.h), passes a full barrier and
// reads the rows; the owner unpublishes a row, passes a full barrier and reads "in use". So one of them
// sees the other, and who retires a row waits for those who may have seen it.
//
// Threads: one writer (the owner of the lane), any number of readers in other processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/owned_fd.h"
#include "base/result.h"
#include "link/shm/channel.h"
#include "wire/numbers.h"

namespace rrdma::link {

inline constexpr std::uint64_t kDirectMagic = 0x3142545452444452;
inline constexpr std::uint32_t kDirectVersion = 3;
inline constexpr std::size_t kDirectRows = 16384;
inline constexpr std::size_t kDirectTiers[] = {0, 512, 2048,
                                               kDirectRows};  // where they begin, and the last ends
inline constexpr std::size_t kDirectProbes = 8;

// A region, or a bound window: memory that a key opens.
struct DirectKey {
  wire::RKey rkey;
  std::uint64_t address = 0;  // the first that requests use
  std::uint64_t length = 0;
  const void* host = nullptr;  // where that octet lies
  std::uint32_t access = 0;    // objects::Access
  std::uint32_t domain = 0;    // the handle of its protection domain
  wire::Qpn only_through;      // a type 2 window's QP; 0: any QP of the domain
  std::uint32_t file = 0;      // 1 + the owner's descriptor of the memory file that it lies in; 0: in none
  std::uint64_t file_offset = 0;
};

// A connected QP that receives.
struct DirectQp {
  wire::Qpn qpn;
  wire::Qpn peer_qpn;
  std::uint32_t peer = 0;  // whom it is connected to: the party that the owner gave to add_channel()
  std::uint32_t access = 0;
  std::uint32_t domain = 0;
};

struct DirectRow {
  std::atomic<std::uint64_t> words[8];
};
static_assert(sizeof(DirectRow) == 64);

struct TableHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t rows;
};

inline constexpr std::size_t kDirectTableOctets = kChannelPage + 2 * kDirectRows * sizeof(DirectRow);

class DirectTable {
 public:
  [[nodiscard]] static Result<DirectTable, ShmError> create();
  DirectTable(DirectTable&& other) noexcept;
  DirectTable& operator=(DirectTable&&) = delete;
  ~DirectTable();

  // False: no row is free where it would be found; packets carry what is for it. REQUIRES: not published.
  bool publish(const DirectKey& key);
  bool publish(const DirectQp& qp);
  // Nobody starts anything with it from now on; who has started may still be at it. False: was not there.
  bool unpublish(wire::RKey rkey);
  bool unpublish(wire::Qpn qpn);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  DirectTable(OwnedFd fd, std::uint8_t* base) : fd_(std::move(fd)), base_(base) {}
  [[nodiscard]] DirectRow* rows(unsigned kind) const;

  OwnedFd fd_;
  std::uint8_t* base_ = nullptr;
};

// A row as a reader found it, and how to see whether it still holds.
template <typename T>
struct Found {
  T value;
  const std::atomic<std::uint64_t>* sequence = nullptr;
  std::uint64_t seen = 0;
  [[nodiscard]] bool holds() const { return sequence->load(std::memory_order_acquire) == seen; }
};

// A peer's table. What it says is believed as far as its owner's memory goes: it only ever hurts itself.
class DirectTableView {
 public:
  [[nodiscard]] static Result<DirectTableView, ShmError> open(const OwnedFd& fd);
  DirectTableView(DirectTableView&& other) noexcept;
  DirectTableView& operator=(DirectTableView&&) = delete;
  ~DirectTableView();

  [[nodiscard]] std::optional<Found<DirectKey>> find(wire::RKey rkey) const;
  [[nodiscard]] std::optional<Found<DirectQp>> find(wire::Qpn qpn) const;

 private:
  explicit DirectTableView(const std::uint8_t* base) : base_(base) {}
  const std::uint8_t* base_ = nullptr;
};

}  // namespace rrdma::link
