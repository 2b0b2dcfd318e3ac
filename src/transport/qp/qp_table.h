// QpTable: maps QPNs to QPs by open addressing. A process allocates QPNs in sequence: four neighbours share a
// cache line, and the groups of four are scattered. Runs stay short, so find and erase are O(1).
#pragma once

#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "wire/numbers.h"

namespace rrdma::transport {

struct QueuePair;

class QpTable {
 public:
  QpTable() : slots_(16) {}
  [[nodiscard]] std::size_t size() const { return used_; }

  [[nodiscard]] QueuePair* find(wire::Qpn qpn) const {
    for (std::size_t i = home_of(qpn);; i = (i + 1) & mask()) {
      if (slots_[i].qp == nullptr) return nullptr;
      if (slots_[i].qpn == qpn) return slots_[i].qp;
    }
  }

  void insert(wire::Qpn qpn, QueuePair& qp) {
    RRDMA_ASSERT(find(qpn) == nullptr);
    if ((used_ + 1) * 2 > slots_.size()) grow();
    place({qpn, &qp});
    ++used_;
  }

  void erase(wire::Qpn qpn) {
    std::size_t hole = home_of(qpn);
    while (slots_[hole].qpn != qpn || slots_[hole].qp == nullptr) hole = (hole + 1) & mask();
    // Backward shift: close the gap so that probing never meets a tombstone.
    for (std::size_t i = (hole + 1) & mask(); slots_[i].qp != nullptr; i = (i + 1) & mask()) {
      const std::size_t home = home_of(slots_[i].qpn);
      if (((i - home) & mask()) < ((i - hole) & mask())) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = {};
    --used_;
  }

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& slot : slots_) {
      if (slot.qp != nullptr) visit(*slot.qp);
    }
  }

  // The longest run, which bounds the cost of erase().
  [[nodiscard]] std::size_t longest_run() const {
    std::size_t longest = 0, run = 0;
    for (const Slot& slot : slots_) {
      run = slot.qp == nullptr ? 0 : run + 1;
      longest = run > longest ? run : longest;
    }
    return longest;
  }

 private:
  struct Slot {
    wire::Qpn qpn;
    QueuePair* qp = nullptr;
  };
  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] std::size_t home_of(wire::Qpn qpn) const {
    const std::uint32_t four = (qpn.value >> 2) * 0x9e3779b1u;
    return ((four ^ four >> 16) << 2 | (qpn.value & 3)) & mask();
  }
  void place(const Slot& slot) {
    std::size_t i = home_of(slot.qpn);
    while (slots_[i].qp != nullptr) i = (i + 1) & mask();
    slots_[i] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const auto& slot : old) {
      if (slot.qp != nullptr) place(slot);
    }
  }
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace rrdma::transport
