#include "daemon/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "control/names.h"
#include "daemon/log.h"
#include "daemon/slots/port_holder.h"

namespace rrdma::daemon {
namespace {

constexpr int kMessagesInOneTurn = 32;
// Descriptors that a client uses (its socket, its process, its page), and the number reserved for everything
// else (slot 0, a parcel that is being read).
constexpr std::size_t kDescriptorsOfClient = 3;
constexpr std::size_t kDescriptorsOfDaemon = 320;
// This part of the others is for messages in outboxes.
constexpr std::size_t kPartOfOutboxes = 16;
// As many of all are for messages that programs have not read.
constexpr std::size_t kPartOfUnread = 4;
constexpr std::size_t kConnectionsMax = 16384;
constexpr std::size_t kConnectionsMin = 16;
// One user has up to three eighths of them. If none is read, they hold at most half of the unit's MemoryHigh
// (packaging/systemd).
static_assert(kConnectionsMax / 8 * 3 * 2 * kSendBuffer <= 192 * 1024 * 1024);
// Connections that were turned away and have not read why. Others do not learn why.
constexpr std::size_t kRefusalsMax = 64;
constexpr int kConnectionsInOneTurn = 64;
// A look at one takes milliseconds if it is nested deep in containers.
constexpr Duration kAcceptTurn = milliseconds(2);
// For all messages that wait for their readers.
constexpr std::size_t kWaitingOctetsMax = 64 * 1024 * 1024;
// The pause before accepting connections again when no descriptor is available.
constexpr Duration kAcceptPause = milliseconds(100);
// The daemon must not wait for a program that was killed between connect and Hello.
constexpr Duration kGreetingTimeout = seconds(10);
constexpr Duration kFirstClientWait = seconds(2);
constexpr std::size_t kEffortsMax = 4096;
// Their users are unknown.
constexpr uid_t kAccountOfEnded = static_cast<uid_t>(-3);
// The maximum number of descriptors of one user that wait to be closed.
constexpr std::size_t kDisposalMax = 1024;
// Of the descriptors of others, this part may wait to be closed before connections that are turned away must
// close at once, and this part before none are accepted.
constexpr std::size_t kPartOfDisposal = 16;
constexpr std::size_t kPartOfDisposalMax = 2;

// Those that this process may open, less those of the daemon itself.
std::size_t descriptors_of_others() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return std::max<std::size_t>(limit.rlim_cur, kDescriptorsOfDaemon) - kDescriptorsOfDaemon;
}

std::size_t waiting_descriptors_max() { return descriptors_of_others() / kPartOfOutboxes; }

// The slots that are parked count for the daemon's user, too, and so do other daemons of that user.
std::size_t unread_descriptors_max(bool is_system) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return is_system ? limit.rlim_cur / kPartOfUnread : limit.rlim_max;
}

std::size_t connections_max() {
  return std::clamp((descriptors_of_others() - waiting_descriptors_max()) / kDescriptorsOfClient,
                    kConnectionsMin, kConnectionsMax);
}

// Why this daemon does not serve the peer.
control::NetworkState explain_stranger(const control::PeerIdentity& peer) {
  const bool is_same = peer.uid == ::geteuid() && control::uid_is_unambiguous(peer.uid);
  return is_same ? explain_other_container() : explain_lock_taken(::geteuid(), raw::getpid());
}

}  // namespace

Server::Server(const ServerSettings& settings, EventLoop& loop, Network& network, Counters& counters,
               KeySource& keys)
    : settings_(settings),
      loop_(loop),
      network_(network),
      counters_(counters),
      keys_(keys),
      connections_(connections_max(), ::geteuid()),
      refusals_(kRefusalsMax, ::geteuid()),
      unread_refusals_(0, ::geteuid(), disposal_),
      outboxes_{Shares(kWaitingOctetsMax, ::geteuid()), Shares(waiting_descriptors_max(), ::geteuid()),
                Unread(unread_descriptors_max(settings.is_system), ::geteuid(), disposal_)},
      started_at_(EventLoop::now()),
      alone_since_(started_at_) {}

Server::~Server() {
  for (auto& [fd, client] : clients_) {
    loop_.forget(fd);
    if (client->process) loop_.forget(client->process.get());
    client->settle_accounts();
  }
}

void Server::serve(OwnedFd listener) {
  listeners_.push_back(std::move(listener));
  watch_listener(listeners_.back().get());
}

void Server::watch_listener(int fd) {
  loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { handle_connection(fd); });
}

// A connection that cannot be accepted stays at the head of its queue and would wake the loop again at once.
void Server::pause_listeners(Instant now) {
  counters_.add("connections.failed");
  if (accepts_again_at_ != kNever) return;
  accepts_again_at_ = now + kAcceptPause;
  for (const OwnedFd& listener : listeners_) loop_.forget(listener.get());
  if (serves_lock_) loop_.forget(network_.listener());
}

void Server::resume_listeners() {
  accepts_again_at_ = kNever;
  for (const OwnedFd& listener : listeners_) watch_listener(listener.get());
  if (serves_lock_) watch_listener(network_.listener());
}

void Server::watch_lock() {
  if (serves_lock_ || network_.listener() < 0) return;
  serves_lock_ = true;
  if (accepts_again_at_ == kNever) watch_listener(network_.listener());
}

void Server::run() {
  settle(started_at_);
  while (!stopped_) {
    run_once(kNever);
    if (may_leave(EventLoop::now())) return;
  }
}

void Server::run_once(Instant deadline) {
  loop_.run_once(std::min(deadline, next_deadline()));
  const Instant now = EventLoop::now();
  for (Subsystem* subsystem : subsystems_) {
    if (subsystem->next_deadline() <= now) subsystem->handle_deadline(now);
  }
  if (rounds_.next_deadline() <= now) rounds_.handle_deadline(now);
  outboxes_.unread.handle_deadline(now);
  unread_refusals_.handle_deadline(now);
  settle(now);
  follow_changes();
  if (now >= accepts_again_at_) resume_listeners();
  resume_waiting(now);
}

Instant Server::next_deadline() const {
  if (!changed_.empty()) return {};
  Instant deadline = std::min({accepts_again_at_, reads_again_at_, buries_again_at_, rounds_.next_deadline(),
                               outboxes_.unread.next_deadline(), unread_refusals_.next_deadline()});
  for (const Subsystem* subsystem : subsystems_) deadline = std::min(deadline, subsystem->next_deadline());
  if (!ungreeted_.empty()) deadline = std::min(deadline, ungreeted_.begin()->first + kGreetingTimeout);
  if (!unwelcomed_.empty()) deadline = std::min(deadline, network_.awaits_offer_until());
  return std::min(deadline, leaves_at());
}

Instant Server::leaves_at() const {
  if (alone_since_ == kNever || settings_.stays) return kNever;
  // The program that started the daemon needs a moment to connect, however short the linger time is.
  return alone_since_ +
         (alone_since_ == started_at_ ? std::max(settings_.linger, kFirstClientWait) : settings_.linger);
}

// True if no client has been connected for long enough. A program that connects at this very moment gets a
// reset and starts the next daemon.
bool Server::may_leave(Instant now) {
  if (settings_.stays) return false;
  if (client_count() > 0) {
    alone_since_ = kNever;
    return false;
  }
  if (alone_since_ == kNever) alone_since_ = now;
  if (now < leaves_at()) return false;
  for (const OwnedFd& listener : listeners_) handle_connection(listener.get());
  if (network_.listener() >= 0) handle_connection(network_.listener());
  return clients_.empty() || (client_count() == 0 && keeper_count() == clients_.size());
}

std::size_t Server::client_count() const {
  return static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), [](const auto& entry) {
    const Client& client = *entry.second;
    return (client.greeted || client.awaits_welcome) && client.hello.role != control::Role::kKeeper;
  }));
}

std::size_t Server::keeper_count() const {
  return static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), [](const auto& entry) {
    return entry.second->greeted && entry.second->hello.role == control::Role::kKeeper;
  }));
}

void Server::retire_keepers() {
  if (client_count() > 0) return;
  for_each_client([](Client& client) {
    if (client.hello.role == control::Role::kKeeper) (void)client.notify(control::Retire{});
  });
}

// A connection that is turned away may carry descriptors that nobody can close, and there is no bound for
// such connections. A connection without descriptors needs no disposal.
bool Server::may_accept(int listener) {
  const std::size_t waiting = disposal_.waiting(), most = descriptors_of_others();
  const bool guarded = settings_.is_system && waiting > std::min(kDisposalMax, most / kPartOfDisposal);
  if (guarded == control::takes_descriptors(listener)) control::let_take_descriptors(listener, !guarded);
  return !guarded || waiting <= most / kPartOfDisposalMax;
}

void Server::handle_connection(int listener) {
  if (!may_accept(listener)) return pause_listeners(EventLoop::now());
  const Instant until = EventLoop::now() + kAcceptTurn;
  for (int i = 0; i < kConnectionsInOneTurn && EventLoop::now() < until; ++i) {
    OwnedFd socket = lifted(raw::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) pause_listeners(EventLoop::now());
      return;
    }
    counters_.add("connections.accepted");
    const control::PeerIdentity peer = control::peer_identity(socket.get());
    admit(std::move(socket), peer);
  }
}

bool Server::may_explain(uid_t account) {
  if (refusals_.take(account)) return true;
  unread_refusals_.collect();
  return refusals_.take(account);
}

void Server::turn_away(std::unique_ptr<Client> client, std::string sentence) {
  const uid_t account = client->account;
  if (may_explain(account)) {
    (void)control::send_datagram(client->fd(),
                                 control::encode(control::Refused{.sentence = std::move(sentence)}, 0));
    unread_refusals_.end(account, client->fd(), refusals_, client->connected_at);
  }
  if (control::takes_descriptors(client->fd())) disposal_.take(account, std::move(client), 1);
}

void Server::admit(OwnedFd socket, const control::PeerIdentity& peer) {
  if (peer.has_ended) {
    counters_.add("connections.of_ended");
    if (!control::takes_descriptors(socket.get())) return;
    std::vector<OwnedFd> sockets;
    sockets.push_back(std::move(socket));
    return disposal_.take(kAccountOfEnded, std::move(sockets));
  }
  auto client =
      std::make_unique<Client>(std::move(socket), peer, outboxes_, disposal_, changed_, EventLoop::now());
  const uid_t account = client->account;
  const bool is_known = control::is_own_user(client->identity) || control::is_root_here(client->identity);
  if (!settings_.is_system && !is_known) {
    counters_.add("clients.strangers");
    const auto state = explain_stranger(client->identity);
    return turn_away(std::move(client), state.reason + " " + state.remedy);
  }
  if (disposal_.waiting(account) > kDisposalMax || !connections_.take(account)) {
    counters_.add("connections.refused_share");
    return turn_away(std::move(client),
                     "rrdmad has " + std::to_string(connections_.total()) + " connections, " +
                         std::to_string(connections_.of(account)) +
                         " of them this user's, and takes no more of this user's: end some programs.");
  }
  Client& known = *client;
  const int fd = known.fd();
  control::let_take_descriptors(fd, true);
  clients_.emplace(fd, std::move(client));
  ungreeted_.emplace(known.connected_at, fd);
  known.awaited_events = EPOLLIN;
  loop_.watch(fd, EPOLLIN, [this, &known](std::uint32_t events) { handle_client_event(known, events); });
  if (known.identity.pid > 0) known.process = lifted(raw::pidfd_open(known.identity.pid, 0));
  if (known.process) {
    loop_.watch(known.process.get(), EPOLLIN, [&known](std::uint32_t) { known.doom(); });
  } else if (known.identity.pid > 0 && errno == ESRCH) {
    known.doom();
  }
}

Client* Server::client_after(int fd) {
  for (auto entry = clients_.upper_bound(fd); entry != clients_.end(); ++entry) {
    if (entry->second->greeted && !entry->second->doomed()) return entry->second.get();
  }
  return nullptr;
}

bool Server::may_hold_parking(const Client& client) const {
  return !settings_.is_system && control::is_own_user(client.acting);
}

void Server::handle_client_event(Client& client, std::uint32_t events) {
  if (client.doomed()) return;
  if (client.waits_for_turn) {
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) client.doom();
    return;
  }
  if ((events & EPOLLOUT) != 0) flush(client);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive_from(client);
  update_watch(client);
}

void Server::flush(Client& client) {
  const Instant before = EventLoop::now();
  if (settings_.is_system && must_wait(client, before)) return;
  client.flush();
  if (settings_.is_system) charge(client.account, before, EventLoop::now() - before);
}

bool Server::has_used_its_time(uid_t account, Instant now, Instant& again_at) {
  const auto found = efforts_.find(account);
  if (found == efforts_.end() || found->second.spent < settings_.effort_of_user) return false;
  again_at = found->second.again_at();
  if (now < again_at) return true;
  efforts_.erase(found);
  return false;
}

bool Server::must_wait(Client& client, Instant now) {
  Instant again_at;
  if (!has_used_its_time(client.account, now, again_at)) return false;
  counters_.add("clients.waited");
  client.waits_for_turn = true;
  waiting_.push_back(client.fd());
  reads_again_at_ = std::min(reads_again_at_, again_at);
  return true;
}

void Server::resume_waiting(Instant now) {
  if (now < reads_again_at_) return;
  reads_again_at_ = kNever;
  for (const int fd : std::exchange(waiting_, {})) {
    const auto found = clients_.find(fd);
    if (found == clients_.end()) continue;
    found->second->waits_for_turn = false;
    update_watch(*found->second);
  }
}

// Reads from a client only while it reads its answers.
void Server::update_watch(Client& client) {
  const std::uint32_t events = client.waits_for_turn ? 0u : client.has_backlog() ? EPOLLOUT : EPOLLIN;
  if (client.doomed() || events == client.awaited_events) return;
  client.awaited_events = events;
  loop_.change(client.fd(), events);
}

void Server::receive_from(Client& client) {
  Instant before = EventLoop::now();
  for (int i = 0; i < kMessagesInOneTurn && !client.doomed() && !client.has_backlog(); ++i) {
    if (settings_.is_system && must_wait(client, before)) return;
    if (disposal_.waiting(client.account) > kDisposalMax) return client.doom();
    control::Received message;
    switch (control::receive_message(client.fd(), message)) {
      case control::ReceiveOutcome::kNothing: return;
      case control::ReceiveOutcome::kGone: return client.doom();
      case control::ReceiveOutcome::kMalformed:
        counters_.add("messages.malformed");
        (void)client.notify(
            control::Refused{.sentence = "rrdmad received something that is not a message of its protocol."});
        client.doom();
        break;
      case control::ReceiveOutcome::kMessage: dispatch(client, message);
    }
    disposal_.take(client.account, std::move(message.fds));
    const Instant after = EventLoop::now();
    if (settings_.is_system) charge(client.account, before, after - before);
    before = after;
  }
}

void Server::charge(uid_t account, Instant since, Duration spent) {
  if (efforts_.size() >= kEffortsMax && !efforts_.contains(account)) efforts_.clear();
  Effort& effort = efforts_.try_emplace(account, Effort{since, {}}).first->second;
  if (since >= effort.again_at()) effort = {since, {}};
  effort.spent = effort.spent + spent;
}

void Server::dispatch(Client& client, control::Received& message) {
  counters_.add("messages.received");
  // A connection survives a change of user, and may be passed to a process of another user.
  client.acting = client.identity;
  if (message.sender && *message.sender != client.identity.uid && *message.sender != 0)
    client.acting.uid = *message.sender;
  if (message.type() == control::MessageType::kHello) return handle_hello(client, message);
  if (message.header.version != control::kProtocolVersion || !client.greeted) {
    return refuse(client, message,
                  "rrdmad expects a Hello of its own protocol version before anything else.");
  }
  for (Subsystem* subsystem : subsystems_) {
    switch (subsystem->handle_message(client, message)) {
      case Subsystem::Verdict::kOthers: continue;
      case Subsystem::Verdict::kHandled: return;
      case Subsystem::Verdict::kMalformed:
        counters_.add("messages.malformed");
        return refuse(
            client, message,
            "rrdmad received a malformed message of type " + std::to_string(message.header.type) + ".");
    }
  }
  counters_.add("messages.unknown");
  client.fail(message, EOPNOTSUPP,
              "this rrdmad knows no message of type " + std::to_string(message.header.type) + ".");
}

void Server::refuse(Client& client, const control::Received& message, std::string sentence) {
  counters_.add("clients.refused");
  (void)client.reply(message, control::Refused{.sentence = std::move(sentence)});
  client.doom();
}

bool Server::may_be_served(const Client& client, control::Role role) const {
  if (control::is_own_user(client.acting)) return true;
  if (role == control::Role::kKeeper) return false;
  // Root may inspect every daemon; a program of root has its own.
  return settings_.is_system || (role == control::Role::kTool && control::is_root_here(client.acting));
}

void Server::handle_hello(Client& client, control::Received& message) {
  if (message.header.version != control::kProtocolVersion) {
    return refuse(
        client, message,
        "rrdmad (pid " + std::to_string(raw::getpid()) + ") speaks protocol version " +
            std::to_string(control::kProtocolVersion) + ", this program's RRDMA library version " +
            std::to_string(message.header.version) +
            ": they are of different releases; end the programs that use the older one, then start again.");
  }
  auto hello = message.as<control::Hello>();
  const std::size_t expected = hello ? std::size_t{hello->has_page} + std::size_t{hello->offers_parking} : 0;
  if (!hello || message.fds.size() != expected || client.greeted || client.awaits_welcome) {
    counters_.add("messages.malformed");
    return refuse(client, message, "rrdmad received a malformed Hello.");
  }
  if (!may_be_served(client, hello->role)) {
    const auto state = explain_stranger(client.identity);
    return refuse(client, message, state.reason + " " + state.remedy);
  }
  if (hello->has_page) {
    if (auto page = control::ProcessPageView::open(message.fds[0].get()); page.ok()) {
      client.page.emplace(std::move(*page));
    } else {
      return refuse(client, message, page.error().sentence);
    }
  }
  const bool may_offer = may_hold_parking(client) ||
                         (hello->role == control::Role::kKeeper && control::is_own_user(client.acting));
  if (hello->offers_parking && may_offer) (void)network_.adopt(std::move(message.fds.back()));
  // Its sockets are useless here and would keep the port taken.
  if (hello->role == control::Role::kKeeper && network_.refused_group())
    (void)client.notify(control::Retire{});
  client.hello = std::move(*hello);
  client.hello_serial = message.header.serial;
  client.token = client.hello.token != 0 ? client.hello.token : keys_.next_wide();
  client.awaits_welcome = true;
  ungreeted_.erase({client.connected_at, client.fd()});
  unwelcomed_.insert(client.fd());
  settle(EventLoop::now());
}

void Server::settle(Instant now) {
  if (!unwelcomed_.empty()) (void)network_.retry(now);
  watch_lock();
  if (network_.is_up() && !network_was_up_) {
    network_was_up_ = true;
    for (const auto& callback : network_up_) callback();
  }
  if (!network_.settled(now)) return;
  for (const int fd : std::exchange(unwelcomed_, {})) {
    Client& client = *clients_.at(fd);
    if (!client.doomed()) welcome(client);
  }
}

void Server::welcome(Client& client) {
  client.awaits_welcome = false;
  client.greeted = true;
  std::vector<control::Slot> lost_slots;
  for (const control::SlotClaim& claim : client.hello.claims) {
    if (!claim_ || !claim_(client, claim)) lost_slots.push_back(claim.slot);
  }
  control::Welcome message{.daemon_pid = static_cast<std::uint32_t>(raw::getpid()),
                           .daemon_uid = ::geteuid(),
                           .is_system = settings_.is_system,
                           .token = client.token,
                           .has_parking = false,
                           .network = network_.state(),
                           .lost_slots = std::move(lost_slots)};
  std::vector<int> fds;
  if (network_.is_up() && may_hold_parking(client)) {
    message.has_parking = true;
    fds.push_back(network_.parking_end());
  }
  if (!client.answer(client.hello_serial, message, fds) && !client.doomed()) {
    // The user has too many descriptors in flight; the program also works without the parking.
    message.has_parking = false;
    (void)client.answer(client.hello_serial, message);
  }
  counters_.add("clients.welcomed");
  if (welcomed_) welcomed_(client);
  update_watch(client);
}

void Server::follow_changes() {
  const Instant now = EventLoop::now();
  while (!ungreeted_.empty() && now >= ungreeted_.begin()->first + kGreetingTimeout) {
    clients_.at(ungreeted_.begin()->second)->doom();
    ungreeted_.erase(ungreeted_.begin());
  }
  std::vector<int> doomed;
  if (now >= buries_again_at_) doomed = std::exchange(unburied_, {});
  if (unburied_.empty()) buries_again_at_ = kNever;
  for (const int fd : std::exchange(changed_, {})) {
    const auto found = clients_.find(fd);
    if (found == clients_.end()) continue;
    Client& client = *found->second;
    if (!client.doomed()) {
      update_watch(client);
      continue;
    }
    loop_.forget(fd);
    if (client.process) loop_.forget(client.process.get());
    doomed.push_back(fd);
  }
  for (const int fd : doomed) {
    const auto found = clients_.find(fd);
    if (found != clients_.end() && found->second->doomed() && !bury(*found->second)) unburied_.push_back(fd);
  }
}

// Thousands of programs of one user may end at once: those beyond its time wait for its next turn.
bool Server::bury(Client& client) {
  const uid_t account = client.account;
  const Instant before = EventLoop::now();
  Instant again_at;
  if (settings_.is_system && has_used_its_time(account, before, again_at)) {
    buries_again_at_ = std::min(buries_again_at_, again_at);
    return false;
  }
  if (client.greeted) {
    for (Subsystem* subsystem : subsystems_) subsystem->handle_client_gone(client);
  }
  rounds_.forget(client);
  ungreeted_.erase({client.connected_at, client.fd()});
  unwelcomed_.erase(client.fd());
  if (settings_.is_system) charge(account, before, EventLoop::now() - before);
  client.settle_accounts();
  outboxes_.unread.end(account, client.fd(), connections_, before);
  const std::size_t descriptors = kDescriptorsOfClient + client.waiting_descriptors();
  const auto found = clients_.find(client.fd());
  std::unique_ptr<Client> gone = std::move(found->second);
  clients_.erase(found);
  disposal_.take(account, std::move(gone), descriptors);
  return true;
}

}  // namespace rrdma::daemon
