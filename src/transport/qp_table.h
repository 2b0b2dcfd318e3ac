// QpTable: QPN to QP. QPNs of a process are handed out in sequence, so their low bits hash well and a
// lookup is one probe in the usual case.
#pragma once

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
    for (std::size_t i = qpn.value & mask();; i = (i + 1) & mask()) {
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
    std::size_t hole = qpn.value & mask();
    while (slots_[hole].qpn != qpn || slots_[hole].qp == nullptr) hole = (hole + 1) & mask();
    // Backward shift: close the gap so that probing never meets a tombstone.
    for (std::size_t i = (hole + 1) & mask(); slots_[i].qp != nullptr; i = (i + 1) & mask()) {
      const std::size_t home = slots_[i].qpn.value & mask();
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

 private:
  struct Slot {
    wire::Qpn qpn;
    QueuePair* qp = nullptr;
  };
  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  void place(const Slot& slot) {
    std::size_t i = slot.qpn.value & mask();
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
