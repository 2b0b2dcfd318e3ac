#include "daemon/registry/rounds.h"

#include <algorithm>
#include <utility>

#include "daemon/server.h"

namespace rrdma::daemon {
namespace {

constexpr Duration kTurn = milliseconds(1);
// For one account in one turn.
constexpr std::size_t kVisitsInOneTurn = 1024;
constexpr std::size_t kMessagesOfATurn = 128;
constexpr std::size_t kRoundsMax = 32;

}  // namespace

bool Rounds::has_room(uid_t account) const {
  const auto found = queues_.find(account);
  return found == queues_.end() || found->second.rounds.size() < kRoundsMax;
}

void Rounds::begin(uid_t account, Client* asker, Visit visit, End end) {
  Queue& queue = queues_[account];
  queue.rounds.push_back({asker, std::move(visit), std::move(end)});
  const Instant now = EventLoop::now();
  if (queue.rounds.size() == 1) go_on(queue, now);
  go_on_at_ = std::min(go_on_at_, now + kTurn);
}

void Rounds::forget(const Client& client) {
  for (auto& [account, queue] : queues_) {
    for (Round& round : queue.rounds) {
      if (round.asker == &client) round.asker = nullptr;
    }
  }
}

void Rounds::handle_deadline(Instant now) {
  for (auto& [account, queue] : queues_) go_on(queue, now);
  std::erase_if(queues_, [](const auto& one) { return one.second.rounds.empty(); });
  go_on_at_ = queues_.empty() ? kNever : now + kTurn;
}

void Rounds::go_on(Queue& queue, Instant now) {
  if (now - queue.since >= kTurn) {
    queue.since = now;
    queue.visits = queue.messages = 0;
  }
  while (!queue.rounds.empty() && queue.visits < kVisitsInOneTurn && queue.messages < kMessagesOfATurn) {
    Client* const client = server_.client_after(queue.rounds.front().last);
    if (client == nullptr) {
      // The end of a round may begin another one.
      const Round done = std::move(queue.rounds.front());
      queue.rounds.pop_front();
      done.end(done.asker);
      continue;
    }
    Round& round = queue.rounds.front();
    round.last = client->fd();
    ++queue.visits;
    queue.messages += round.visit(*client);
  }
}

}  // namespace rrdma::daemon
