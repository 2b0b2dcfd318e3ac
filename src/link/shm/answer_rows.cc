#include "link/shm/answer_rows.h"

namespace rrdma::link {

std::atomic<std::uint64_t>* AnswerRows::claim(wire::Qpn qpn) {
  const auto known = rows_.find(qpn.value);
  if (known != rows_.end()) return &own_[known->second].answer;
  if (rows_.size() == kAnswerRows) return nullptr;
  taken_.resize(kAnswerRows);
  while (taken_[next_]) next_ = (next_ + 1) % kAnswerRows;
  const std::size_t row = next_;
  next_ = (next_ + 1) % kAnswerRows;
  taken_[row] = true;
  rows_.emplace(qpn.value, row);
  // Clear the answer first: the peer must never read it as the answer of the new QP.
  own_[row].answer.store(0, std::memory_order_relaxed);
  own_[row].qpn.store(qpn.value, std::memory_order_release);
  return &own_[row].answer;
}

void AnswerRows::release(wire::Qpn qpn) {
  const auto known = rows_.find(qpn.value);
  if (known == rows_.end()) return;
  taken_[known->second] = false;
  rows_.erase(known);
}

std::optional<wire::LastAnswer> AnswerRows::find_peers(wire::Qpn qpn) const {
  for (std::size_t i = 0; i < kAnswerRows; ++i) {
    if (peers_[i].qpn.load(std::memory_order_acquire) != qpn.value) continue;
    if (const auto answer = wire::LastAnswer::read(peers_[i].answer.load(std::memory_order_relaxed)))
      return answer;
  }
  return std::nullopt;
}

}  // namespace rrdma::link
