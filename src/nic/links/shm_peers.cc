#include "nic/links/shm_peers.h"

#include <cerrno>
#include <mutex>

#include "base/format.h"

namespace rrdma::nic {

namespace {

Failure<Problem> no_channel(const link::ShmError& error) {
  return problem(error.error != 0 ? error.error : EIO,
                 formatted("no shared-memory channel could be made: {}.", link::describe(error.problem)));
}

}  // namespace

std::optional<ShmPeers::Channel> ShmPeers::find(control::Slot slot, std::uint64_t token) const {
  for (const Peer& peer : peers_) {
    if (peer.slot == slot && peer.token == token) return Channel{peer.channel, peer.party};
  }
  return std::nullopt;
}

Result<ShmPeers::Channel, Problem> ShmPeers::open_channel(control::Slot own_slot, control::Slot slot,
                                                          std::uint64_t token) {
  {
    std::lock_guard lock(mutex_);
    if (auto known = find(slot, token)) return *known;
  }
  if (token == daemon_.token() && slot == own_slot) return open_self(slot, token);
  auto pair = link::ShmChannel::create();
  if (!pair) return no_channel(pair.error());
  const int fds[] = {pair->peer_memory.get(), pair->peer_doorbell.get()};
  if (auto offered = daemon_.offer_channel(own_slot, slot, {}, fds); !offered)
    return Failure{offered.error()};
  std::lock_guard lock(mutex_);
  const std::uint32_t party = party_of_token(token);
  auto channel = link_.add_channel(std::move(pair->own), party);
  if (!channel) return no_channel(channel.error());
  peers_.push_back({token, slot, *channel, party});
  return Channel{*channel, party};
}

std::uint32_t ShmPeers::party_of_token(std::uint64_t token) {
  for (const Peer& peer : peers_) {
    if (peer.token == token) return peer.party;
  }
  return ++last_party_;
}

std::uint32_t ShmPeers::party_of(std::uint32_t channel) const {
  for (const Peer& peer : peers_) {
    if (peer.channel == channel) return peer.party;
  }
  return 0;
}

// A QP may be connected to another one of its own lane: then we own both ends of the channel. Another lane of
// the same process is a peer like any other.
Result<ShmPeers::Channel, Problem> ShmPeers::open_self(control::Slot slot, std::uint64_t token) {
  auto pair = link::ShmChannel::create();
  if (!pair) return no_channel(pair.error());
  auto other = link::ShmChannel::open(std::move(pair->peer_memory), std::move(pair->peer_doorbell));
  if (!other) return no_channel(other.error());
  std::lock_guard lock(mutex_);
  if (auto known = find(slot, token)) return *known;
  const std::uint32_t party = party_of_token(token);
  auto there = link_.add_channel(std::move(*other), party);
  if (!there) return no_channel(there.error());
  auto channel = link_.add_channel(std::move(pair->own), party);
  if (!channel) return no_channel(channel.error());
  peers_.push_back({token, slot, *channel, party});
  return Channel{*channel, party};
}

void ShmPeers::accept(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) {
  if (fds.size() != 2) return;
  auto opened = link::ShmChannel::open(std::move(fds[0]), std::move(fds[1]));
  if (!opened) return;
  const std::uint32_t party = party_of_token(offer.token);
  auto channel = link_.add_channel(std::move(*opened), party);
  if (!channel) return;
  // If both ends created a channel at the same time, each sends on its own and reads both.
  peers_.push_back({offer.token, offer.from_slot, *channel, party});
}

std::vector<std::uint32_t> ShmPeers::channels_of(std::uint64_t token) const {
  std::vector<std::uint32_t> channels;
  for (const Peer& peer : peers_) {
    if (peer.token == token) channels.push_back(peer.channel);
  }
  return channels;
}

void ShmPeers::forget_channel(std::uint32_t channel) {
  std::erase_if(peers_, [&](const Peer& peer) { return peer.channel == channel; });
  link_.remove_channel(channel);
}

}  // namespace rrdma::nic
