// ServerSet: the addresses of a Client. One coroutine for each address that is wanted connects, pauses after
// a failure and tries again. Calls only choose among the open channels, or wait until something changes.
#include "rrdma/rpc/client.h"

#include <random>

#include "rrdma/comm/scope.h"
#include "rrdma/comm/signal.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

// An address that has not answered within this time no longer holds up the others.
constexpr std::chrono::milliseconds kHeadStart{250};

}  // namespace

// Waits until a connection was made, or an attempt failed.
struct ChangeWaiter : comm::detail::Link {
  ChangeWaiter(comm::Context& context, comm::Limit limit) : signal(context, std::move(limit)) {}
  comm::Signal signal;
};

class ServerSet {
 public:
  ServerSet(comm::Context& context, std::vector<std::string> addresses, ClientOptions options)
      : context_(&context),
        options_(std::move(options)),
        random_(options_.seed != 0 ? options_.seed : std::random_device{}()),
        tokens_(options_.budget.tokens),
        last_(Code::kUnavailable, "there are no addresses") {
    for (std::string& address : addresses) {
      servers_.emplace_back();
      servers_.back().hash = hash_of(address);
      servers_.back().address = std::move(address);
    }
  }

  comm::Task<Result<Channel>> channel(comm::Limit limit, std::string key);
  // Waits for the pause, or until another connection was made. Fails if the limit is earlier.
  comm::Task<Status> rest(std::chrono::milliseconds pause, comm::Limit limit);
  [[nodiscard]] const ClientOptions& options() const { return options_; }
  ClientCounters& counters() { return counters_; }
  [[nodiscard]] comm::Context& context() const { return *context_; }

  // The budget.
  void failed() { tokens_ = std::max(0.0, tokens_ - 1); }
  void succeeded() { tokens_ = std::min(options_.budget.tokens, tokens_ + options_.budget.per_success); }
  // Whether the budget allows a further attempt. Counts it if not.
  bool allows() {
    if (options_.budget.tokens <= 0 || tokens_ > options_.budget.tokens / 2) return true;
    ++counters_.denied;
    return false;
  }

 private:
  struct Place {
    std::string address;
    std::uint64_t hash = 0;  // of the address
    Channel channel;
    bool kept = false;              // keep() runs
    bool dialing = false;           // an attempt is in flight
    unsigned failures = 0;          // in sequence
    comm::Clock::time_point since;  // of the attempt or the connection
    comm::Clock::time_point due;    // the next attempt
  };

  // Makes connections as far as they are wanted now.
  void want();
  // Starts the most promising address that is due. False if there is none.
  bool start_one(comm::Clock::time_point now);
  // Connects, waits until the connection is lost, and pauses after failures, as long as the address is
  // wanted.
  comm::Task<void> keep(Place& place);
  comm::Task<bool> dial(Place& place);
  [[nodiscard]] bool wanted() const;
  [[nodiscard]] bool dialing() const;
  // Whether a change is about to happen.
  [[nodiscard]] bool busy() const;
  // An open channel, or null.
  Channel* choose(comm::Clock::time_point now, const std::string& key);
  Channel* idlest();
  Channel* named_by(const std::string& key, comm::Clock::time_point now);
  // Whether the first connection to this server is about to be made.
  void log(LogLevel level, std::string_view event, const Place& place, std::string_view words = {}) const {
    if (options_.log) options_.log({level, event, place.address, words});
  }
  static bool expected(const Place& place, comm::Clock::time_point now) {
    return place.dialing && place.failures == 0 && now < place.since + kHeadStart;
  }
  void back_off(Place& place);
  std::chrono::milliseconds part_of(std::chrono::milliseconds pause);
  void changed();

  comm::Context* context_;
  ClientOptions options_;
  std::mt19937_64 random_;
  std::vector<Place> servers_;
  std::size_t next_ = 0;     // kRoundRobin: the next one in turn
  std::size_t current_ = 0;  // kFirst: the one in use
  comm::Clock::time_point last_start_;
  double tokens_;
  Status last_;  // of the last attempt that failed
  ClientCounters counters_;
  comm::detail::List<ChangeWaiter> waiting_;
  comm::Scope scope_;  // last, and thus destroyed first
};

void ServerSet::changed() {
  while (ChangeWaiter* waiter = waiting_.pop_front()) waiter->signal.give();
}

std::chrono::milliseconds ServerSet::part_of(std::chrono::milliseconds pause) {
  std::uniform_int_distribution<std::int64_t> part(pause.count() / 2, pause.count());
  return std::chrono::milliseconds(part(random_));
}

void ServerSet::back_off(Place& place) {
  const unsigned doublings = std::min(place.failures, 20U);
  ++place.failures;
  const auto pause =
      std::min<std::chrono::milliseconds>(options_.first_pause * (1U << doublings), options_.most_pause);
  place.due = comm::Clock::now() + part_of(pause);
}

bool ServerSet::wanted() const {
  if (options_.pick != Pick::kFirst) return true;
  return std::none_of(servers_.begin(), servers_.end(), [](const Place& one) { return one.channel.open(); });
}
bool ServerSet::dialing() const {
  return std::any_of(servers_.begin(), servers_.end(), [](const Place& one) { return one.dialing; });
}

bool ServerSet::busy() const {
  // After the loss of a connection, keep() runs soon.
  return std::any_of(servers_.begin(), servers_.end(), [](const Place& one) {
    return one.dialing || (one.channel.connected() && !one.channel.open());
  });
}

bool ServerSet::start_one(comm::Clock::time_point now) {
  Place* best = nullptr;
  for (Place& place : servers_) {
    if (place.kept || place.due > now) continue;
    if (best == nullptr || place.failures < best->failures) best = &place;
  }
  if (best == nullptr) return false;
  best->kept = true;
  scope_.spawn(keep(*best));
  return true;
}

void ServerSet::want() {
  if (!wanted()) return;
  const comm::Clock::time_point now = comm::Clock::now();
  if (options_.pick != Pick::kFirst) {
    while (start_one(now)) continue;
  } else if (!dialing() || now >= last_start_ + kHeadStart) {
    start_one(now);
  }
}

comm::Task<bool> ServerSet::dial(Place& place) {
  ++counters_.attempts;
  place.dialing = true;
  place.since = last_start_ = comm::Clock::now();
  auto connected = co_await Channel::connect(*context_, place.address, options_.channel, options_.connect);
  place.dialing = false;
  if (!connected.ok()) {
    last_ = connected.status();
    // Treat an address that does not answer as an unavailable server.
    if (last_.code() == Code::kDeadlineExceeded) last_ = Status(Code::kUnavailable, last_.message());
    log(LogLevel::kWarning, "failed", place, last_.message());
    co_return false;
  }
  place.channel = std::move(*connected);
  place.failures = 0;
  place.since = comm::Clock::now();
  ++counters_.connections;
  log(LogLevel::kInfo, "connected", place);
  co_return true;
}

comm::Task<void> ServerSet::keep(Place& place) {
  while (wanted()) {
    if (place.due > comm::Clock::now()) {
      auto slept = co_await context_->sleep_until(place.due);
      if (!slept) break;
      continue;
    }
    const bool connected = co_await dial(place);
    if (connected) {
      changed();
      co_await place.channel.until_lost();
      place.channel = Channel();
      last_ = Status(Code::kUnavailable, "the connection to " + place.address + " was lost");
      log(LogLevel::kWarning, "lost", place);
    }
    // A server that accepts connections and drops them is no better than one that refuses them.
    if (!connected || comm::Clock::now() - place.since < options_.most_pause) {
      back_off(place);
      want();
    }
    changed();
  }
  place.kept = false;
}

Channel* ServerSet::idlest() {
  Channel* best = nullptr;
  // Begin with another server each time, so that equally loaded ones take turns.
  const std::size_t from = next_++;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Channel& channel = servers_[(from + i) % servers_.size()].channel;
    if (channel.open() && (best == nullptr || channel.calls() < best->calls())) best = &channel;
  }
  return best;
}

namespace {
// Spreads the bits (the finalizer of SplitMix64).
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}
}  // namespace

// Rendezvous hashing: each server has a weight for each key, and the heaviest one serves it.
Channel* ServerSet::named_by(const std::string& key, comm::Clock::time_point now) {
  const std::uint64_t hash = mixed(hash_of(key));
  Place* best = nullptr;
  std::uint64_t most = 0;
  for (Place& place : servers_) {
    if (!place.channel.open() && !expected(place, now)) continue;
    const std::uint64_t weight = mixed(hash ^ place.hash);
    if (best != nullptr && weight <= most) continue;
    best = &place;
    most = weight;
  }
  return best != nullptr && best->channel.open() ? &best->channel : nullptr;
}

Channel* ServerSet::choose(comm::Clock::time_point now, const std::string& key) {
  if (options_.pick == Pick::kLeastLoaded) return idlest();
  if (options_.pick == Pick::kHash) return named_by(key, now);
  const bool in_turn = options_.pick == Pick::kRoundRobin;
  const std::size_t from = in_turn ? next_ : current_;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const std::size_t at = (from + i) % servers_.size();
    Place& place = servers_[at];
    if (place.channel.open()) {
      (in_turn ? next_ : current_) = in_turn ? at + 1 : at;
      return &place.channel;
    }
    // The first connection to a server that is expected to answer.
    if (in_turn && expected(place, now)) return nullptr;
  }
  return nullptr;
}

comm::Task<Result<Channel>> ServerSet::channel(comm::Limit limit, std::string key) {
  for (;;) {
    want();
    const comm::Clock::time_point now = comm::Clock::now();
    if (Channel* open = choose(now, key)) co_return Result<Channel>(*open);
    if (!busy()) co_return Result<Channel>(last_);
    const comm::Clock::time_point head_start = last_start_ + kHeadStart;
    const auto until = now < head_start ? std::min(limit.at(), head_start) : limit.at();
    ChangeWaiter waiter(*context_, comm::Limit(until, limit.stop()));
    waiting_.push_back(&waiter);
    auto waited = co_await waiter.signal;
    if (!waited && (waited.error().code() != comm::Code::kDeadline || comm::Clock::now() >= limit.at()))
      co_return Result<Channel>(status_of(waited.error()));
  }
}

comm::Task<Status> ServerSet::rest(std::chrono::milliseconds pause, comm::Limit limit) {
  const auto until = comm::Clock::now() + part_of(pause);
  if (until >= limit.at()) co_return Status(Code::kDeadlineExceeded, "no time is left for another try");
  for (const std::uint64_t connections = counters_.connections; counters_.connections == connections;) {
    ChangeWaiter waiter(*context_, comm::Limit(until, limit.stop()));
    waiting_.push_back(&waiter);
    auto waited = co_await waiter.signal;
    if (waited) continue;
    if (waited.error().code() == comm::Code::kDeadline) break;
    co_return status_of(waited.error());
  }
  co_return Status();
}

}  // namespace detail

Client::Client(comm::Context& context, std::vector<std::string> addresses, ClientOptions options)
    : servers_(std::make_unique<detail::ServerSet>(context, std::move(addresses), std::move(options))) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

comm::Task<Result<Channel>> Client::channel(comm::Limit limit, std::string key) {
  return servers_->channel(std::move(limit), std::move(key));
}
const ClientCounters& Client::counters() const { return servers_->counters(); }

const Hedging& Client::hedging() const { return servers_->options().hedging; }
comm::Context& Client::context() const { return servers_->context(); }
bool Client::may_hedge() {
  if (!servers_->allows()) return false;
  ++servers_->counters().hedged;
  return true;
}
bool Client::passing(const Status& status) {
  // A server that has no room now refuses a call before it starts it.
  return status.code() == Code::kUnavailable ||
         (status.code() == Code::kResourceExhausted && status.refused());
}

void Client::Attempts::succeeded() { client_->servers_->succeeded(); }

comm::Task<bool> Client::Attempts::next(Status& status, comm::Limit limit, bool connected, bool safe) {
  const ClientOptions& options = client_->servers_->options();
  if (!passing(status)) co_return false;
  if (connected) client_->servers_->failed();
  if (connected && !safe && !status.refused()) co_return false;
  if (connected || !options.wait_for_ready) {
    if (made_ >= options.tries) co_return false;
    if (connected && !client_->servers_->allows()) co_return false;
    ++made_;
  }
  pause_ = pause_.count() == 0 ? options.first_pause : std::min(pause_ * 2, options.most_pause);
  Status rested = co_await client_->servers_->rest(pause_, std::move(limit));
  if (!rested.ok()) {
    if (rested.code() != Code::kDeadlineExceeded) status = std::move(rested);
    co_return false;
  }
  ++client_->servers_->counters().repeated;
  co_return true;
}

}  // namespace v0
}  // namespace rrdma::rpc
