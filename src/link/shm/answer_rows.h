// AnswerRows: the answer rows of a channel (layout.h), as one side uses them: its own rows, one for each QP
// that is connected through the channel, and those of the peer, which it reads when the peer is gone.
//
// The peer may write anything into either table. So the allocation of the own rows is kept here. An answer
// read from the peer's rows is trusted like an ACK packet from the peer.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "link/shm/channel.h"
#include "wire/last_answer.h"
#include "wire/numbers.h"

namespace rrdma::link {

class AnswerRows {
 public:
  explicit AnswerRows(const ShmChannel& channel)
      : own_(channel.answers(channel.own_direction())),
        peers_(channel.answers(1 - channel.own_direction())) {}

  // The place for the last answer of this QP: always the same until release(). Null: all rows are taken.
  [[nodiscard]] std::atomic<std::uint64_t>* claim(wire::Qpn qpn);
  // The row may go to another QP. Its content stays until then.
  void release(wire::Qpn qpn);
  // The last answer of a QP of the peer.
  [[nodiscard]] std::optional<wire::LastAnswer> find_peers(wire::Qpn qpn) const;

 private:
  AnswerRow* own_;
  const AnswerRow* peers_;
  std::unordered_map<std::uint32_t, std::size_t> rows_;  // by QPN
  std::vector<bool> taken_;
  std::size_t next_ = 0;  // round robin: the answer of a destroyed QP stays as long as possible
};

}  // namespace rrdma::link
