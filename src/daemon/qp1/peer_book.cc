#include "daemon/qp1/peer_book.h"

#include <algorithm>
#include <vector>

namespace rrdma::daemon {
namespace {

constexpr std::size_t kOutgoingMax = 1024;

}  // namespace

PeerBook::Peer PeerBook::find(const wire::Gid& remote, Instant now) const {
  const auto found = peers_.find(remote);
  if (found == peers_.end() || !found->second.peer.known || now >= found->second.until) return {};
  return found->second.peer;
}

PeerBook::Peer PeerBook::look_up(const wire::Gid& local, const wire::Gid& remote,
                                 std::uint32_t interface_index, Instant now, std::uint32_t account) {
  const auto found = peers_.find(remote);
  if (found != peers_.end() && (!found->second.peer.known || now < found->second.until))
    return found->second.peer;
  make_room(now, account);
  Entry& entry = peers_[remote];
  entry = {};
  entry.account = account;
  entry.route.local = local;
  entry.route.remote = remote;
  entry.route.interface_index = interface_index;
  entry.transaction_id = keys_.next_wide();
  ask(entry, now);
  return {};
}

// A program may name any address. The user with the most entries loses its oldest ones, so a user that asks
// for thousands of addresses evicts only its own.
void PeerBook::make_room(Instant now, std::uint32_t account) {
  if (peers_.size() < kPeersMax) return;
  std::erase_if(peers_, [&](const auto& item) { return item.second.peer.known && now >= item.second.until; });
  if (peers_.size() < kPeersMax) return;
  std::unordered_map<std::uint32_t, std::size_t> counts{{account, 1}};
  for (const auto& [remote, entry] : peers_) ++counts[entry.account];
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  // Several at a time, because a scan of all entries should free more than one place.
  std::vector<std::pair<Instant, wire::Gid>> oldest;
  for (const auto& [remote, entry] : peers_)
    if (entry.account == most->first) oldest.emplace_back(entry.until, remote);
  const std::size_t gone = std::min(oldest.size(), kPeersMax / 64);
  std::partial_sort(oldest.begin(), oldest.begin() + static_cast<std::ptrdiff_t>(gone), oldest.end(),
                    [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < gone; ++i) peers_.erase(oldest[i].second);
}

void PeerBook::ask(Entry& entry, Instant now) {
  ++entry.asks;
  entry.until = now + kPatience;
  next_ = std::min(next_, entry.until);
  if (outgoing_.size() >= kOutgoingMax) return;
  outgoing_.push_back(
      {entry.route, wire::emit_introduction(
                        {.transaction_id = entry.transaction_id, .features = features_, .epoch = epoch_})});
}

void PeerBook::settle(Entry& entry, const Peer& peer, Instant now) {
  entry.peer = peer;
  entry.peer.known = true;
  entry.until = now + kLife;
}

std::optional<wire::Gid> PeerBook::handle_mad(const cm::MadAddresses& addresses, Octets mad, Instant now) {
  const auto heard = wire::parse_introduction(mad);
  if (!heard) return std::nullopt;
  if (!heard->answer) {
    if (outgoing_.size() >= kOutgoingMax) return std::nullopt;
    cm::Route route;
    route.local = addresses.local;
    route.remote = addresses.remote;
    route.interface_index = addresses.interface_index;
    outgoing_.push_back({route, wire::emit_introduction({.answer = true,
                                                         .transaction_id = heard->transaction_id,
                                                         .features = features_,
                                                         .epoch = epoch_})});
    return std::nullopt;
  }
  const auto found = peers_.find(addresses.remote);
  if (found == peers_.end() || found->second.peer.known ||
      found->second.transaction_id != heard->transaction_id)
    return std::nullopt;
  const bool ours = heard->status == 0 && heard->version >= wire::kIntroductionVersion;
  settle(found->second, {.features = ours ? heard->features : 0, .epoch = ours ? heard->epoch : 0}, now);
  return addresses.remote;
}

std::optional<cm::OutgoingMad> PeerBook::poll_mad() {
  if (outgoing_.empty()) return std::nullopt;
  const cm::OutgoingMad mad = outgoing_.front();
  outgoing_.pop_front();
  return mad;
}

void PeerBook::handle_deadline(Instant now) {
  next_ = kNever;
  for (auto& [remote, entry] : peers_) {
    if (entry.peer.known) continue;
    if (now < entry.until) {
      next_ = std::min(next_, entry.until);
    } else if (entry.asks < kAsksMax) {
      ask(entry, now);
    } else {
      settle(entry, {}, now);
    }
  }
}

}  // namespace rrdma::daemon
