#include "daemon/qp1/cm_service.h"

#include <algorithm>
#include <cerrno>

#include "daemon/event_loop.h"

namespace rrdma::daemon {
namespace {

constexpr Duration kFlushPause = milliseconds(2);
constexpr std::size_t kFlushedInOneTurn = 256;  // programs
constexpr Duration kCleaningPause = milliseconds(1);
constexpr std::size_t kCleanedInOneTurn = 64;  // ids and connections of one user's programs that are gone
constexpr std::size_t kPortsMax = 65'536;
constexpr std::size_t kEventsMax = 65'536;

template <typename Message>
constexpr std::uint16_t kNumber = static_cast<std::uint16_t>(Message::kType);

bool is_loopback(const wire::Gid& gid) {
  if (gid.is_ipv4()) return gid.octets[12] == 127;
  wire::Gid loopback;
  loopback.octets[15] = 1;
  return gid == loopback;
}

cm::AddressMatch match_of(const PortClaim& claim) {
  using Kind = cm::AddressMatch::Kind;
  if (!claim.address.is_zero()) return {.kind = Kind::kExactIp, .address = claim.address};
  if (claim.family == control::CmFamily::kIpv4) return {.kind = Kind::kAnyIpv4};
  return {.kind = claim.family_only ? Kind::kAnyIpv6 : Kind::kAnyIp};
}

// The errno that a program sees.
int errno_of(cm::Error error) {
  switch (error) {
    case cm::Error::kUnknownConnection:
    case cm::Error::kUnknownListener: return ENOENT;
    case cm::Error::kAlreadyEstablished: return EISCONN;
    case cm::Error::kWrongState:
    case cm::Error::kPrivateDataTooLong:
    case cm::Error::kInfoTooLong:
    case cm::Error::kInvalidPathMtu:
    case cm::Error::kInvalidQpType: return EINVAL;
    case cm::Error::kTooManyConnections:
    case cm::Error::kTooManyListeners: return ENOMEM;
    case cm::Error::kServiceInUse: return EADDRINUSE;
    case cm::Error::kIdInUse: return EEXIST;
  }
  return EINVAL;
}

struct IncomingCall {
  const cm::Route& route;
  const std::optional<wire::IpCmHeader>& ip;
};
std::optional<IncomingCall> incoming_call(const cm::EventDetails& details) {
  if (const auto* connect = std::get_if<cm::ConnectRequest>(&details))
    return IncomingCall{connect->route, connect->ip};
  if (const auto* look_up = std::get_if<cm::LookupRequest>(&details))
    return IncomingCall{look_up->route, look_up->ip};
  return std::nullopt;
}

}  // namespace

ConnectionService::ConnectionService(MadPort& mads, const Slots& slots, Counters& counters, KeySource keys)
    : counters_(counters),
      mads_(mads),
      slots_(slots),
      endpoint_(cm::Settings{}, keys.branch()),
      ports_(keys.branch()),
      port_shares_(kPortsMax, ::geteuid()),
      connection_shares_(cm::Settings{}.connections_max, ::geteuid()),
      event_shares_(kEventsMax, ::geteuid()) {
  mads_.on_arrival([this] { pump(EventLoop::now()); });
}

template <typename Message>
Subsystem::Verdict ConnectionService::take(Client& client, control::Received& message) {
  const auto request = message.as<Message>();
  if (!request || !message.fds.empty()) return Verdict::kMalformed;
  handle(program_of(client), message, *request);
  pump(EventLoop::now());
  return Verdict::kHandled;
}

Subsystem::Verdict ConnectionService::handle_message(Client& client, control::Received& message) {
  switch (message.header.type) {
    case kNumber<control::CmBind>: return take<control::CmBind>(client, message);
    case kNumber<control::CmRelease>: return take<control::CmRelease>(client, message);
    case kNumber<control::CmListen>: return take<control::CmListen>(client, message);
    case kNumber<control::CmConnect>: return take<control::CmConnect>(client, message);
    case kNumber<control::CmLookUp>: return take<control::CmLookUp>(client, message);
    case kNumber<control::CmAccept>: return take<control::CmAccept>(client, message);
    case kNumber<control::CmReject>: return take<control::CmReject>(client, message);
    case kNumber<control::CmReplyLookUp>: return take<control::CmReplyLookUp>(client, message);
    case kNumber<control::CmReady>: return take<control::CmReady>(client, message);
    case kNumber<control::CmNotify>: return take<control::CmNotify>(client, message);
    case kNumber<control::CmDisconnect>: return take<control::CmDisconnect>(client, message);
    case kNumber<control::CmDestroy>: return take<control::CmDestroy>(client, message);
    case kNumber<control::CmRestore>: return take<control::CmRestore>(client, message);
    default: return Verdict::kOthers;
  }
}

ConnectionService::Program& ConnectionService::program_of(Client& client) {
  std::unique_ptr<Program>& program = programs_[&client];
  if (program == nullptr) {
    program = std::make_unique<Program>();
    program->client = &client;
    program->account = client.account;
    while (++last_serial_ == 0 || by_serial_.contains(last_serial_)) {
    }
    program->serial = last_serial_;
    by_serial_[last_serial_] = program.get();
  }
  return *program;
}

bool ConnectionService::owns(const Program& program, cm::ConnectionId connection) const {
  return program.connections.contains(connection.value);
}

// ---- cleanup after a program ----

void ConnectionService::handle_client_gone(Client& client) {
  const auto found = programs_.find(&client);
  if (found == programs_.end()) return;
  const Instant now = EventLoop::now();
  found->second->client = nullptr;
  behind_.erase(found->second->serial);
  Ended& ended = ended_[client.account];
  if (!found->second->listeners.empty()) ended.listening.push_back(found->second.get());
  ended.programs.push_back(std::move(found->second));
  programs_.erase(found);
  if (ended.programs.size() == 1) clean_up(ended, now);
  cleans_up_at_ = std::min(cleans_up_at_, now + kCleaningPause);
  pump(now);
}

void ConnectionService::clean_up(Ended& ended, Instant now) {
  for (std::size_t i = 0; i < kCleanedInOneTurn && !ended.programs.empty(); ++i) clean_up_one(ended, now);
}

void ConnectionService::clean_up_one(Ended& ended, Instant now) {
  // This refuses calls that they were not told of yet, and no new ones come.
  if (!ended.listening.empty()) {
    Program& program = *ended.listening.front();
    release(program, program.listeners.begin()->first, now);
    if (program.listeners.empty()) ended.listening.pop_front();
    return;
  }
  Program& program = *ended.programs.front();
  if (!program.numbers.empty()) {
    release(program, program.numbers.begin()->first, now);
  } else if (!program.connections.empty()) {
    const cm::ConnectionId connection{*program.connections.begin()};
    endpoint_.destroy(now, connection);
    forget(program, connection);
  } else {
    while (!program.outbox.empty()) drop_front(program);
    by_serial_.erase(program.serial);
    ended.programs.pop_front();
  }
}

void ConnectionService::release(Program& program, std::uint32_t number, Instant now) {
  if (const auto listener = program.listeners.find(number); listener != program.listeners.end()) {
    (void)endpoint_.stop_listening(now, listener->second);
    program.listeners.erase(listener);
  }
  ports_.release(program.owner(number));
  const auto known = program.numbers.find(number);
  if (known == program.numbers.end()) return;
  port_shares_.give_back(program.account);
  if (known->second) ephemeral_shares(*known->second).give_back(program.account);
  program.numbers.erase(known);
}

Shares& ConnectionService::ephemeral_shares(wire::PortSpace space) {
  return ephemeral_shares_.try_emplace(space, PortTable::kEphemeralCount, ::geteuid()).first->second;
}

// ---- requests ----

void ConnectionService::answer(Program& program, const control::Received& request,
                               const Result<void, cm::Error>& outcome) {
  if (outcome.ok()) {
    (void)program.client->reply(request, control::Done{});
  } else {
    program.client->fail(request, errno_of(outcome.error()), std::string(cm::describe(outcome.error())));
  }
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmBind& bind) {
  const uid_t uid = program.client->account;
  if (!port_shares_.take(program.client->payer())) {
    return program.client->fail(request, EDQUOT,
                                "this user's programs have " + std::to_string(port_shares_.of(uid)) +
                                    " ids with a port, and others need some: end some of them.");
  }
  const auto port = ports_.bind({.owner = program.owner(bind.number),
                                 .port_space = bind.port_space,
                                 .port = bind.port,
                                 .family = bind.family,
                                 .address = bind.address,
                                 .reuse = bind.reuse,
                                 .family_only = bind.family_only});
  if (!port) {
    port_shares_.give_back(uid);
    return program.client->fail(request, port.error(),
                                port.error() == EADDRINUSE
                                    ? "port " + std::to_string(bind.port) +
                                          " is in use by another id: end its program, or choose another port."
                                    : "the id cannot be bound to that port.");
  }
  const bool is_ephemeral = PortTable::is_ephemeral(*port);
  if (is_ephemeral && !ephemeral_shares(bind.port_space).take(program.client->payer())) {
    ports_.release(program.owner(bind.number));
    port_shares_.give_back(uid);
    return program.client->fail(request, EDQUOT,
                                "this user's programs have " +
                                    std::to_string(ephemeral_shares(bind.port_space).of(uid)) +
                                    " of the ports from 32768 on, and others need some: end some of them.");
  }
  program.numbers.emplace(bind.number, is_ephemeral ? std::optional(bind.port_space) : std::nullopt);
  (void)program.client->reply(request, control::CmBound{.port = *port});
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmRelease& released) {
  release(program, released.number, EventLoop::now());
  (void)program.client->reply(request, control::Done{});
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmListen& listen) {
  const CmOwner owner = program.owner(listen.number);
  if (const auto listening = ports_.listen(owner); !listening) {
    return program.client->fail(request, listening.error(), "another id listens on that address and port.");
  }
  const PortClaim& claim = *ports_.find(owner);
  const auto service = wire::service_id_of({.port_space = claim.port_space, .port = claim.port});
  const auto listener = endpoint_.listen(
      {.owner = owner, .service_id = service, .match = match_of(claim), .backlog = listen.backlog});
  if (!listener) return answer(program, request, Failure{listener.error()});
  program.listeners.emplace(listen.number, *listener);
  (void)program.client->reply(request, control::Done{});
}

// A call with a QPN of another program would make the peer doubt an existing connection. A QPN of nobody is
// no harm: the kernel does not check it either, and some programs pass a number of their own.
bool ConnectionService::may_use_qpn(const Program& program, wire::Qpn qpn) const {
  const Client* owner = slots_.owner_of(control::slot_of_qpn(qpn.value));
  return owner == nullptr || owner == program.client ||
         control::is_one_pod(program.client->acting, owner->identity);
}

void ConnectionService::refuse_qpn(Program& program, const control::Received& request) {
  counters_.add("cm.foreign_queue_pairs");
  program.client->fail(request, EPERM, "the queue pair that the request names is none of this user's.");
}

bool ConnectionService::may_use(Program& program, const control::Received& request, wire::Qpn qpn,
                                const wire::Gid& local) {
  if (!may_use_qpn(program, qpn)) {
    refuse_qpn(program, request);
    return false;
  }
  if (mads_.is_own(local)) return true;
  counters_.add("cm.foreign_addresses");
  program.client->fail(request, EADDRNOTAVAIL, "the address to call from is none of this host's.");
  return false;
}

bool ConnectionService::may_start(Program& program, const control::Received& request) {
  const uid_t uid = program.client->account;
  if (connection_shares_.take(program.client->payer())) return true;
  program.client->fail(request, EDQUOT,
                       "this user's programs have " + std::to_string(connection_shares_.of(uid)) +
                           " connections, and others need some: end some of them.");
  return false;
}

void ConnectionService::forget(Program& program, cm::ConnectionId connection) {
  if (program.connections.erase(connection.value) != 0) connection_shares_.give_back(program.account);
}

void ConnectionService::start(Program& program, const control::Received& request,
                              const Result<cm::ConnectionId, cm::Error>& started) {
  if (!started) {
    connection_shares_.give_back(program.client->account);
    return answer(program, request, Failure{started.error()});
  }
  program.connections.insert(started->value);
  (void)program.client->reply(request, control::CmStarted{.connection = *started});
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmConnect& connect) {
  if (!may_use(program, request, connect.parameters.qpn, connect.parameters.route.local) ||
      !may_start(program, request))
    return;
  cm::ConnectParameters parameters = connect.parameters;
  parameters.owner = program.owner(connect.number);
  start(program, request, endpoint_.connect(EventLoop::now(), parameters));
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmLookUp& look_up) {
  if (!may_use(program, request, wire::Qpn(0), look_up.parameters.route.local) ||
      !may_start(program, request))
    return;
  cm::LookupParameters parameters = look_up.parameters;
  parameters.owner = program.owner(look_up.number);
  start(program, request, endpoint_.look_up(EventLoop::now(), parameters));
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmAccept& accept) {
  if (!owns(program, accept.connection))
    return answer(program, request, Failure{cm::Error::kUnknownConnection});
  if (!may_use_qpn(program, accept.parameters.qpn)) return refuse_qpn(program, request);
  answer(program, request, endpoint_.accept(EventLoop::now(), accept.connection, accept.parameters));
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmReject& reject) {
  if (!owns(program, reject.connection))
    return answer(program, request, Failure{cm::Error::kUnknownConnection});
  answer(program, request, endpoint_.reject(EventLoop::now(), reject.connection, reject.parameters));
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmReplyLookUp& reply) {
  if (!owns(program, reply.connection))
    return answer(program, request, Failure{cm::Error::kUnknownConnection});
  answer(program, request, endpoint_.reply_lookup(EventLoop::now(), reply.connection, reply.parameters));
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmReady& ready) {
  if (!owns(program, ready.connection))
    return answer(program, request, Failure{cm::Error::kUnknownConnection});
  if (const auto sent = endpoint_.send_rtu(ready.connection); !sent) return answer(program, request, sent);
  control::CmEstablished established;
  if (const auto snapshot = endpoint_.snapshot(ready.connection); snapshot.ok())
    established.connection = *snapshot;
  (void)program.client->reply(request, established);
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmNotify& notify) {
  if (!owns(program, notify.connection))
    return answer(program, request, Failure{cm::Error::kUnknownConnection});
  answer(program, request, endpoint_.notify_established(notify.connection));
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmDisconnect& disconnect) {
  if (!owns(program, disconnect.connection))
    return answer(program, request, Failure{cm::Error::kUnknownConnection});
  answer(program, request, endpoint_.disconnect(EventLoop::now(), disconnect.connection));
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmDestroy& destroy) {
  if (!owns(program, destroy.connection))
    return answer(program, request, Failure{cm::Error::kUnknownConnection});
  endpoint_.destroy(EventLoop::now(), destroy.connection);
  forget(program, destroy.connection);
  const std::size_t dropped = std::erase_if(program.outbox, [&](const control::CmEvent& waiting) {
    return waiting.event.id == destroy.connection;
  });
  if (dropped != 0) event_shares_.give_back(program.client->account, dropped);
  (void)program.client->reply(request, control::Done{});
}

void ConnectionService::handle(Program& program, const control::Received& request,
                               const control::CmRestore& restore) {
  if (!may_use(program, request, restore.connection.local_qpn, restore.connection.route.local) ||
      !may_start(program, request))
    return;
  const auto restored = endpoint_.restore(restore.connection, program.owner(restore.number));
  if (!restored.ok()) {
    connection_shares_.give_back(program.client->account);
  } else {
    program.connections.insert(restore.connection.id.value);
    counters_.add("cm.connections_restored");
  }
  answer(program, request, restored);
}

// ---- MADs, time, events ----

Instant ConnectionService::next_deadline() const {
  return std::min({endpoint_.next_deadline(), flush_at_, cleans_up_at_});
}

void ConnectionService::handle_deadline(Instant now) {
  endpoint_.handle_timeouts(now);
  if (now >= flush_at_) flush_some(now);
  if (now >= cleans_up_at_) {
    for (auto& [account, ended] : ended_) clean_up(ended, now);
    std::erase_if(ended_, [](const auto& one) { return one.second.programs.empty(); });
    cleans_up_at_ = ended_.empty() ? kNever : now + kCleaningPause;
  }
  pump(now);
}

void ConnectionService::pump(Instant now) {
  for (bool moved = true; moved;) {
    moved = false;
    while (const auto mad = endpoint_.poll_mad()) mads_.send(*mad, now);
    while (const auto mad = mads_.receive()) {
      moved = true;
      if (others_ && is_for_others(*mad) && others_(*mad)) continue;
      endpoint_.handle_mad(now, mad->addresses, mad->octets);
    }
    while (const auto event = endpoint_.poll_event()) {
      moved = true;
      deliver(*event, now);
    }
  }
}

bool ConnectionService::is_for_others(const ReceivedMad& received) const {
  const auto mad = wire::parse_cm_mad(received.octets);
  return !mad || !endpoint_.is_recipient(received.addresses, *mad);
}

std::vector<Client*> ConnectionService::concerned_by(const cm::MadAddresses& addresses,
                                                     const wire::CmMad& mad) const {
  std::vector<Client*> clients;
  for (const cm::OwnerToken owner : endpoint_.owners_of(addresses, mad)) {
    const auto found = by_serial_.find(static_cast<std::uint32_t>(owner >> 32));
    if (found == by_serial_.end()) continue;
    Client* const client = found->second->client;
    if (client == nullptr) continue;
    if (std::find(clients.begin(), clients.end(), client) == clients.end()) clients.push_back(client);
  }
  return clients;
}

void ConnectionService::set_timewait_length(TimewaitLength length) {
  endpoint_.set_timewait_length(
      [this, length = std::move(length)](cm::OwnerToken owner, const wire::Gid& remote) {
        const auto found = by_serial_.find(static_cast<std::uint32_t>(owner >> 32));
        return length(found != by_serial_.end() ? found->second->client : nullptr, remote);
      });
}

void ConnectionService::deliver(const cm::Event& event, Instant now) {
  const auto found = by_serial_.find(static_cast<std::uint32_t>(event.owner >> 32));
  if (found == by_serial_.end() || found->second->client == nullptr) {
    endpoint_.destroy(now, event.id);
    if (found != by_serial_.end()) forget(*found->second, event.id);
    return;
  }
  Program& program = *found->second;
  if (const auto call = incoming_call(event.details)) {
    if (!may_call(call->route, call->ip) || !connection_shares_.take(program.client->payer())) {
      counters_.add("cm.calls_refused");
      endpoint_.destroy(now, event.id);
      return;
    }
    program.connections.insert(event.id.value);
  }
  control::CmEvent message{.number = static_cast<std::uint32_t>(event.owner), .event = event};
  const bool settles_terms = std::holds_alternative<cm::ConnectRequest>(event.details) ||
                             std::holds_alternative<cm::ConnectReply>(event.details);
  const auto attributes = endpoint_.qp_attributes(event.id, cm::QpStep::kReadyToSend);
  if (settles_terms && attributes.ok()) message.attributes = *attributes;
  if (std::holds_alternative<cm::Established>(event.details)) {
    if (const auto snapshot = endpoint_.snapshot(event.id); snapshot.ok()) message.established = *snapshot;
  }
  if (!event_shares_.take(program.client->payer())) {
    // The program does not read, or other programs of its user do not. Its events must not be lost, so end
    // it.
    counters_.add("cm.programs_ended_unread");
    return program.client->doom();
  }
  program.outbox.push_back(std::move(message));
  flush(program, now);
}

void ConnectionService::drop_front(Program& program) {
  program.outbox.pop_front();
  event_shares_.give_back(program.account);
}

// A listener on a loopback address accepts only callers on this host, regardless of the header of a call.
bool ConnectionService::may_call(const cm::Route& route, const std::optional<wire::IpCmHeader>& ip) {
  return !ip || !is_loopback(ip->destination) || mads_.is_own(route.remote);
}

void ConnectionService::flush(Program& program, Instant now) {
  Client& client = *program.client;
  while (!program.outbox.empty() &&
         (client.doomed() || (client.takes_events() && client.notify(program.outbox.front()))))
    drop_front(program);
  if (program.outbox.empty()) {
    behind_.erase(program.serial);
  } else {
    behind_.insert(program.serial);
    flush_at_ = std::min(flush_at_, now + kFlushPause);
  }
}

// Thousands of programs may not read: some of them in each turn.
void ConnectionService::flush_some(Instant now) {
  flush_at_ = kNever;
  for (std::size_t i = std::min(kFlushedInOneTurn, behind_.size()); i > 0; --i) {
    auto next = behind_.upper_bound(flushed_last_);
    if (next == behind_.end()) next = behind_.begin();
    flushed_last_ = *next;
    flush(*by_serial_.at(flushed_last_), now);
    if (behind_.empty()) break;
  }
  if (!behind_.empty()) flush_at_ = std::min(flush_at_, now + kFlushPause);
}

}  // namespace rrdma::daemon
