// Credits: the flow control of a connection, in both directions.
//
// A credit is the right to use one receive of the peer. Every message takes one; the last one is reserved for
// credit messages. Receives that were posted again are owed to the peer, and every message carries the owed
// credits. A separate credit message is due if an eighth of all (at least 16, if that is at most half) is
// owed, or if the peer has none left. It is due only for receives that held application messages; otherwise
// both ends would answer credit messages forever.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class Credits {
 public:
  // ---- ours, granted by the peer ----
  void open(std::uint32_t granted) { ours_ = granted; }
  [[nodiscard]] std::uint32_t ours() const { return ours_; }
  [[nodiscard]] bool has_for_message() const { return ours_ > 1; }
  [[nodiscard]] bool has_for_control() const { return ours_ > 0; }
  void use() { --ours_; }
  // Adds credits that a message of the peer carried. Returns false if the peer, which has `most` receives,
  // cannot have that many.
  [[nodiscard]] bool accept(std::uint32_t more, std::uint32_t most) {
    if (more > most - std::min(ours_, most)) return false;
    ours_ += more;
    return true;
  }

  // ---- the peer's, granted by us ----
  // Receives were posted again; `counting` of them had held application messages.
  void owe(std::uint32_t receives, std::uint32_t counting) {
    owed_ += receives;
    owed_counting_ += counting;
  }
  // Grants what is owed and returns it: the number for the next message.
  std::uint32_t grant() {
    const std::uint32_t granted = owed_;
    theirs_ += granted;
    owed_ = owed_counting_ = 0;
    return granted;
  }
  // The peer has sent a message. Returns false if it had no credit for it.
  [[nodiscard]] bool peer_used_one() {
    if (theirs_ == 0) return false;
    --theirs_;
    return true;
  }
  [[nodiscard]] bool owes_for_messages() const { return owed_counting_ != 0; }
  // The peer is almost out of credits, so even a small grant is worth a message.
  [[nodiscard]] bool peer_starves() const { return theirs_ <= 1 && owes_for_messages(); }
  // Whether a separate credit message is due. `depth`: our receives.
  [[nodiscard]] bool message_due(std::uint32_t depth) const {
    const std::uint32_t enough = std::min(depth / 2, std::max(depth / kPieces, kPiece));
    return owes_for_messages() && (owed_ >= enough || theirs_ <= 1);
  }

 private:
  // Grant in portions, so that a steady sender gets more before it runs out.
  static constexpr std::uint32_t kPieces = 8;
  static constexpr std::uint32_t kPiece = 16;

  std::uint32_t ours_ = 0;
  std::uint32_t theirs_ = 0;
  std::uint32_t owed_ = 0;
  std::uint32_t owed_counting_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
