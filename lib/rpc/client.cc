// ServerSet: the addresses of a Client, and the sources that they come from. A name is looked up at first,
// and again after failures; files are watched. An address that its source has no longer serves the calls in
// flight.
//
// One coroutine for each address that is wanted connects, pauses after a failure and tries again. Calls only
// choose among the open channels, or wait until something changes.
#include "rrdma/rpc/client.h"

#include <algorithm>
#include <deque>
#include <random>

#include "lib/rpc/address_source.h"
#include "rrdma/comm/scope.h"
#include "rrdma/comm/signal.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

// An address that has not answered within this time no longer holds up the others.
constexpr std::chrono::milliseconds kHeadStart{250};
// The interval between looks whether the calls of an address that is gone have ended.
constexpr std::chrono::milliseconds kRetirement{20};
// From a millisecond to the longest pause.
constexpr unsigned kMostDoublings = 63;

std::chrono::milliseconds doubled(std::chrono::milliseconds pause, std::chrono::milliseconds most) {
  return pause < most / 2 ? pause * 2 : most;
}

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
    for (std::string& address : addresses) sources_.emplace_back(std::move(address));
    take_addresses();
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
  struct Source : AddressSource {
    using AddressSource::AddressSource;
    bool asking = false;          // a look-up is in flight
    bool asked = false;           // it was looked up or read
    bool stale = false;           // a server of it has failed since
    unsigned failures = 0;        // look-ups in sequence
    comm::Clock::time_point due;  // the next look-up, at the earliest
  };
  struct Place {
    std::string address;
    std::uint64_t hash = 0;  // of the address
    Channel channel;
    bool gone = false;              // no source has the address any more
    bool kept = false;              // keep() runs
    bool dialing = false;           // an attempt is in flight
    unsigned failures = 0;          // in sequence
    comm::Clock::time_point since;  // of the attempt or the connection
    comm::Clock::time_point due;    // the next attempt
  };

  // The places of all addresses of the sources. Addresses that stay keep their places.
  void take_addresses();
  // Looks up names that are due, and begins to watch files.
  void ask_sources(comm::Clock::time_point now);
  comm::Task<void> look_up(Source& source);
  comm::Task<void> watch(Source& source);
  // A server failed, so that its name may have other addresses now.
  void doubt_names();
  // Closes the connection of a place that is gone when its calls have ended.
  comm::Task<void> retire(std::shared_ptr<Place> place);
  // Makes connections as far as they are wanted now.
  void want();
  // Starts the most promising address that is due. False if there is none.
  bool start_one(comm::Clock::time_point now);
  // Connects, waits until the connection is lost, and pauses after failures, as long as the address is
  // wanted.
  comm::Task<void> keep(std::shared_ptr<Place> place);
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
  // The pause after this many failures in sequence before the last one.
  std::chrono::milliseconds pause_after(unsigned failures);
  std::chrono::milliseconds part_of(std::chrono::milliseconds pause);
  void changed();

  comm::Context* context_;
  ClientOptions options_;
  std::mt19937_64 random_;
  std::deque<Source> sources_;
  std::vector<std::shared_ptr<Place>> servers_;
  std::size_t next_ = 0;     // kRoundRobin: the next one in turn
  std::size_t current_ = 0;  // kFirst: the one in use
  comm::Clock::time_point last_start_;
  double tokens_;
  Status last_;  // of the last attempt that failed
  ClientCounters counters_;
  comm::detail::List<ChangeWaiter> waiting_;
  comm::Scope scope_;  // last, and thus destroyed first
};

void ServerSet::take_addresses() {
  std::vector<std::shared_ptr<Place>> before = std::move(servers_);
  servers_.clear();
  const std::shared_ptr<Place> current = current_ < before.size() ? before[current_] : nullptr;
  next_ = current_ = 0;
  const auto has = [](const std::vector<std::shared_ptr<Place>>& all, const std::string& address) {
    return std::find_if(all.begin(), all.end(), [&](const auto& one) { return one->address == address; });
  };
  for (const Source& source : sources_) {
    for (const std::string& address : source.addresses()) {
      if (has(servers_, address) != servers_.end()) continue;
      if (const auto found = has(before, address); found != before.end()) {
        if (*found == current) current_ = servers_.size();
        servers_.push_back(std::move(*found));
        before.erase(found);
        continue;
      }
      servers_.push_back(std::make_shared<Place>());
      servers_.back()->address = address;
      servers_.back()->hash = hash_of(address);
    }
  }
  for (std::shared_ptr<Place>& place : before) {
    place->gone = true;
    if (place->channel.open()) scope_.spawn(retire(std::move(place)));
  }
}

comm::Task<void> ServerSet::retire(std::shared_ptr<Place> place) {
  while (place->channel.open() && place->channel.calls() != 0)
    static_cast<void>(co_await context_->sleep(kRetirement));
  place->channel.close();
}

void ServerSet::ask_sources(comm::Clock::time_point now) {
  for (Source& source : sources_) {
    if (source.kind() == AddressSource::Kind::kFile && !std::exchange(source.asked, true)) {
      if (source.read(last_)) take_addresses();
      scope_.spawn(watch(source));
    }
    if (source.kind() != AddressSource::Kind::kName || source.asking || source.due > now) continue;
    if (source.asked && !source.stale) continue;
    source.asking = true;
    scope_.spawn(look_up(source));
  }
}

comm::Task<void> ServerSet::watch(Source& source) {
  for (;;) {
    auto slept = co_await context_->sleep(options_.look_again);
    if (!slept) co_return;
    if (!source.read(last_)) continue;
    take_addresses();
    want();
    changed();
  }
}

comm::Task<void> ServerSet::look_up(Source& source) {
  Result<std::vector<std::string>> found = Status(Code::kUnavailable);
  if (options_.resolve) {
    found = co_await options_.resolve(source.target());
  } else {
    auto looked = co_await context_->look_up(source.target(), comm::Limit(options_.connect));
    found = std::move(looked);
  }
  source.asking = source.stale = false;
  source.asked = found.ok();
  const bool good = found.ok() && !found->empty();
  source.failures = good ? 0 : source.failures + 1;
  source.due = comm::Limit(good ? options_.look_again : pause_after(source.failures - 1)).at();
  if (!found.ok()) {
    // As if the servers did not answer: the name may be known later.
    last_ = Status(Code::kUnavailable, source.target() + ": " + found.status().message());
  } else if (found->empty()) {
    last_ = Status(Code::kUnavailable, source.target() + " has no addresses");
  } else if (*found != source.addresses()) {
    source.set(std::move(*found));
    take_addresses();
  }
  want();
  changed();
}

void ServerSet::doubt_names() {
  for (Source& source : sources_) source.stale = true;
}

void ServerSet::changed() {
  while (ChangeWaiter* waiter = waiting_.pop_front()) waiter->signal.give();
}

std::chrono::milliseconds ServerSet::part_of(std::chrono::milliseconds pause) {
  std::uniform_int_distribution<std::int64_t> part(pause.count() / 2, pause.count());
  return std::chrono::milliseconds(part(random_));
}

std::chrono::milliseconds ServerSet::pause_after(unsigned failures) {
  auto pause = std::min(options_.first_pause, options_.most_pause);
  for (unsigned i = std::min(failures, kMostDoublings); i > 0; --i)
    pause = doubled(pause, options_.most_pause);
  return part_of(pause);
}

void ServerSet::back_off(Place& place) { place.due = comm::Limit(pause_after(place.failures++)).at(); }

bool ServerSet::wanted() const {
  if (options_.pick != Pick::kFirst) return true;
  return std::none_of(servers_.begin(), servers_.end(), [](const auto& one) { return one->channel.open(); });
}
bool ServerSet::dialing() const {
  return std::any_of(servers_.begin(), servers_.end(), [](const auto& one) { return one->dialing; });
}

bool ServerSet::busy() const {
  if (std::any_of(sources_.begin(), sources_.end(), [](const Source& one) { return one.asking; }))
    return true;
  // After the loss of a connection, keep() runs soon.
  return std::any_of(servers_.begin(), servers_.end(), [](const auto& one) {
    return one->dialing || (one->channel.connected() && !one->channel.open());
  });
}

bool ServerSet::start_one(comm::Clock::time_point now) {
  std::shared_ptr<Place> best;
  for (const auto& place : servers_) {
    if (place->kept || place->due > now) continue;
    if (best == nullptr || place->failures < best->failures) best = place;
  }
  if (best == nullptr) return false;
  best->kept = true;
  scope_.spawn(keep(std::move(best)));
  return true;
}

void ServerSet::want() {
  const comm::Clock::time_point now = comm::Clock::now();
  ask_sources(now);
  if (!wanted()) return;
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

comm::Task<void> ServerSet::keep(std::shared_ptr<Place> held) {
  Place& place = *held;
  while (!place.gone && wanted()) {
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
    if (place.gone) break;
    doubt_names();
    // A server that accepts connections and drops them is no better than one that refuses them.
    const auto lasted = std::chrono::floor<std::chrono::milliseconds>(comm::Clock::now() - place.since);
    if (!connected || lasted < options_.most_pause) {
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
    Channel& channel = servers_[(from + i) % servers_.size()]->channel;
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
  for (const auto& one : servers_) {
    Place& place = *one;
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
    Place& place = *servers_[at];
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
      co_return waited.error();
  }
}

comm::Task<Status> ServerSet::rest(std::chrono::milliseconds pause, comm::Limit limit) {
  const auto until = comm::Limit(part_of(pause)).at();
  if (until >= limit.at()) co_return Status(Code::kDeadlineExceeded, "no time is left for another try");
  for (const std::uint64_t connections = counters_.connections; counters_.connections == connections;) {
    ChangeWaiter waiter(*context_, comm::Limit(until, limit.stop()));
    waiting_.push_back(&waiter);
    auto waited = co_await waiter.signal;
    if (waited) continue;
    if (waited.error().code() == comm::Code::kDeadline) break;
    co_return waited.error();
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
  pause_ = pause_.count() == 0 ? options.first_pause : detail::doubled(pause_, options.most_pause);
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
