// PeerBook: what is known about the hosts that programs here connect to: RRDMA, with which features, or a stranger.
// It does no I/O: questions go out through poll_mad(), answers come in through handle_mad(), time is an argument.
//
// A host is asked up to kAsksMax times; one that answers with a status, or never, is a stranger. What is known holds for
// kLife, and is forgotten sooner when the addresses of this host change; a host that starts anew says another
// epoch, and is believed from then on. Connections that exist keep what they were made with: their peer is what it is.
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
  static constexpr Duration kPatience = milliseconds(150);  // for each of them
  static constexpr Duration kLife = seconds(60);
  static constexpr std::size_t kPeersMax = 4096;

  // `features` is what this host says of itself. `keys`: system_keys() outside of tests: only an answer with
  // the question's transaction ID is believed.
  PeerBook(std::uint32_t features, const KeySource& keys)
      : features_(features), keys_(keys), epoch_(keys_.next_wide()) {}

  struct Peer {
    bool known = false;
    std::uint32_t features = 0;  // 0: a stranger
    std::uint64_t epoch = 0;
  };
  // Returns the known state, and sends a question if nothing is known. `account` is the user that asks: if the book is
  // full, the user with the most entries loses its oldest.
  Peer look_up(const wire::Gid& local, const wire::Gid& remote, std::uint32_t interface_index, Instant now,
               std::uint32_t account = 0);
  // Another host asks, or answers. The address of one that is known now and was not before.
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
    Instant until;  // known: when it is forgotten; else: when it is asked again or given up
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
