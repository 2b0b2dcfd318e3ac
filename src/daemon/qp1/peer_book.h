// PeerBook: the known hosts that programs here connect to: RRDMA with its features, or a stranger. It does no
// I/O: questions leave through poll_mad(), answers enter through handle_mad(), time is an argument.
//
// A host is asked up to kAsksMax times. A host that answers with an error status, or never, is a stranger. An
// entry is valid for kLife, or until the addresses of this host change. A restarted host announces another
// epoch, which replaces the entry. Existing connections keep the features that they were created with.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "base/instant.h"
#include "base/keys/key_source.h"
#include "cm/endpoint.h"
#include "wire/introduction_mad.h"

namespace rrdma::daemon {

class PeerBook {
 public:
  static constexpr std::uint32_t kAsksMax = 3;
  static constexpr Duration kPatience = milliseconds(150);  // for each question
  static constexpr Duration kLife = seconds(60);
  static constexpr std::size_t kPeersMax = 4096;

  // `features` are those of this host. `keys`: system_keys() outside tests, because only an answer with the
  // question's transaction ID is accepted.
  PeerBook(std::uint32_t features, const KeySource& keys)
      : features_(features), keys_(keys), epoch_(keys_.next_wide()) {}

  struct Peer {
    bool known = false;
    std::uint32_t features = 0;  // 0: a stranger
    std::uint64_t epoch = 0;
  };
  // Returns the known state, and sends a question if nothing is known. `account` is the user that asks: if
  // the book is full, the user with the most entries loses its oldest.
  Peer look_up(const wire::Gid& local, const wire::Gid& remote, std::uint32_t interface_index, Instant now,
               std::uint32_t account = 0);
  // Handles a question or an answer of another host. Returns its address if it is newly known.
  std::optional<wire::Gid> handle_mad(const cm::MadAddresses& addresses, Octets mad, Instant now);
  [[nodiscard]] Peer find(const wire::Gid& remote, Instant now) const;
  void forget_all() { peers_.clear(); }

  [[nodiscard]] std::optional<cm::OutgoingMad> poll_mad();
  [[nodiscard]] Instant next_deadline() const { return next_; }
  void handle_deadline(Instant now);
  [[nodiscard]] std::size_t size() const { return peers_.size(); }
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

 private:
  struct Entry {
    Peer peer;
    cm::Route route;
    std::uint64_t transaction_id = 0;
    std::uint32_t asks = 0;
    std::uint32_t account = 0;
    Instant until;  // known: time of expiry; else: time of the next question or of giving up
  };
  void ask(Entry& entry, Instant now);
  void settle(Entry& entry, const Peer& peer, Instant now);
  void make_room(Instant now, std::uint32_t account);

  const std::uint32_t features_;
  KeySource keys_;
  const std::uint64_t epoch_;
  std::unordered_map<wire::Gid, Entry, cm::GidHash> peers_;
  std::deque<cm::OutgoingMad> outgoing_;
  Instant next_ = kNever;
};

}  // namespace rrdma::daemon
