// DirectTable: the accesses to its memory that a process grants its peers. It lies in a memfd that only its
// owner can write. Peers map it and look up keys and QPs before every direct operation.
//
//   table = TableHeader, (page) key rows[kDirectRows], qp rows[kDirectRows]
//   row   = sequence, 7 words. published: sequence even and not 0. A row lies within kDirectProbes rows from
//           its hash in one of the tiers. Packets carry the request if there is no row.
//
// Names are random, so rows spread over their tier. The first tiers are small, so a table of few rows touches
// few pages.
//
// Synchronisation: a peer sets "in use" (in the channel, see layout.h), passes a full barrier and reads the
// rows. The owner unpublishes a row, passes a full barrier and reads "in use". So one of them sees the other,
// and an owner that retires a row waits for every peer that may have seen it.
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
inline constexpr std::uint32_t kDirectVersion = 4;
inline constexpr std::size_t kDirectRows = 16384;
inline constexpr std::size_t kDirectTiers[] = {0, 512, 2048,
                                               kDirectRows};  // start of each tier, and the end of the last
inline constexpr std::size_t kDirectProbes = 8;

// A region or a bound window: memory that a key grants access to.
struct DirectKey {
  wire::RKey rkey;
  std::uint64_t address = 0;  // the first address that requests use
  std::uint64_t length = 0;
  const void* host = nullptr;  // location of that byte
  std::uint32_t access = 0;    // objects::Access
  std::uint32_t domain = 0;    // the handle of its protection domain
  wire::Qpn only_through;      // a type 2 window's QP; 0: any QP of the domain
  std::uint32_t file = 0;      // 1 + the owner's descriptor of the memory file that holds it; 0: none
  std::uint64_t file_offset = 0;
  bool far = false;  // no CPU can touch it; `file_offset` is the address of its FarDescription in the owner
};

// A connected QP that can receive.
struct DirectQp {
  wire::Qpn qpn;
  wire::Qpn peer_qpn;
  std::uint32_t peer = 0;  // its connected peer: the party that the owner gave to add_channel()
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

  // False if no row is free in its probe range; then packets carry the requests. REQUIRES: not published.
  bool publish(const DirectKey& key);
  bool publish(const DirectQp& qp);
  // Prevents new operations; those that have started may still run. False if it was not published.
  bool unpublish(wire::RKey rkey);
  bool unpublish(wire::Qpn qpn);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  DirectTable(OwnedFd fd, std::uint8_t* base) : fd_(std::move(fd)), base_(base) {}
  [[nodiscard]] DirectRow* rows(unsigned kind) const;

  OwnedFd fd_;
  std::uint8_t* base_ = nullptr;
};

// A row as a reader found it, and the means to check that it is still valid.
template <typename T>
struct Found {
  T value;
  const std::atomic<std::uint64_t>* sequence = nullptr;
  std::uint64_t seen = 0;
  [[nodiscard]] bool holds() const { return sequence->load(std::memory_order_acquire) == seen; }
};

// A peer's table. A false entry can only harm the memory of its owner, so the contents need no validation.
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
