#include "daemon/qp1/recognition.h"

#include "objects/path.h"

namespace rrdma::daemon {
namespace {

// Thousands of programs may wait for one peer.
constexpr std::size_t kToldInOneTurn = 128;
constexpr Duration kTurnPause = milliseconds(1);

}  // namespace

Recognition::Recognition(MadPort& mads, Counters& counters, bool strict, const KeySource& keys)
    : mads_(mads),
      counters_(counters),
      strict_(strict),
      book_(objects::kOwnFeatures, keys),
      curiosity_(PeerBook::kPeersMax, ::geteuid()) {
  if (!strict_) mads_.on_introduction([this](const ReceivedMad& mad) { handle_mad(mad); });
}

Subsystem::Verdict Recognition::handle_message(Client& client, control::Received& message) {
  if (message.type() != control::MessageType::kRecognisePeer) return Verdict::kOthers;
  const auto wanted = message.as<control::RecognisePeer>();
  if (!wanted || !message.fds.empty()) return Verdict::kMalformed;
  if (strict_) {
    (void)client.reply(message, control::PeerRecognised{.remote = wanted->remote, .known = true});
    return Verdict::kHandled;
  }
  if (monitor_.changed()) book_.forget_all();
  const Instant now = EventLoop::now();
  const bool may_ask = mads_.is_own(wanted->local);
  const PeerBook::Peer peer =
      may_ask ? book_.look_up(wanted->local, wanted->remote, wanted->interface_index, now, client.account)
              : book_.find(wanted->remote, now);
  if (may_ask && !peer.known) remember(client, wanted->remote);
  (void)client.reply(message, control::PeerRecognised{.remote = wanted->remote,
                                                      .known = peer.known,
                                                      .features = static_cast<std::uint8_t>(peer.features)});
  send_mads(now);
  return Verdict::kHandled;
}

void Recognition::remember(Client& client, const wire::Gid& remote) {
  const auto known = curious_.find(remote);
  if ((known != curious_.end() && known->second.contains(&client)) || !curiosity_.take(client.payer()))
    return;
  curious_[remote].insert(&client);
}

void Recognition::handle_client_gone(Client& client) {
  for (auto& [remote, clients] : curious_) {
    if (clients.erase(&client) != 0) curiosity_.give_back(client.account);
  }
  std::erase_if(curious_, [](const auto& item) { return item.second.empty(); });
  for (Answer& answer : answers_) {
    if (answer.clients.erase(&client) != 0) curiosity_.give_back(client.account);
  }
}

void Recognition::forget(const std::unordered_set<Client*>& clients) {
  for (const Client* client : clients) curiosity_.give_back(client->account);
}

void Recognition::tell(Instant now) {
  for (std::size_t told = 0; told < kToldInOneTurn && !answers_.empty();) {
    Answer& answer = answers_.front();
    if (answer.clients.empty()) {
      answers_.pop_front();
      continue;
    }
    Client* const client = *answer.clients.begin();
    answer.clients.erase(answer.clients.begin());
    curiosity_.give_back(client->account);
    (void)client->notify(answer.event);
    ++told;
  }
  tells_again_at_ = answers_.empty() ? kNever : now + kTurnPause;
}

void Recognition::handle_deadline(Instant now) {
  if (now >= tells_again_at_) tell(now);
  if (now < book_.next_deadline()) return;
  book_.handle_deadline(now);
  std::erase_if(curious_, [&](const auto& item) {
    const bool is_settled = book_.find(item.first, now).known;  // a stranger
    if (is_settled) forget(item.second);
    return is_settled;
  });
  send_mads(now);
}

void Recognition::handle_mad(const ReceivedMad& mad) {
  const Instant now = EventLoop::now();
  if (const auto remote = book_.handle_mad(mad.addresses, mad.octets, now)) {
    const PeerBook::Peer peer = book_.find(*remote, now);
    counters_.add(peer.features != 0 ? "peers.recognised" : "peers.strangers");
    const auto waiting = curious_.find(*remote);
    if (waiting != curious_.end()) {
      answers_.push_back(
          {{.remote = *remote, .known = true, .features = static_cast<std::uint8_t>(peer.features)},
           std::move(waiting->second)});
      curious_.erase(waiting);
      tells_again_at_ = std::min(tells_again_at_, now);
    }
  }
  send_mads(now);
}

void Recognition::send_mads(Instant now) {
  while (const auto mad = book_.poll_mad()) mads_.send(*mad, now);
}

}  // namespace rrdma::daemon
