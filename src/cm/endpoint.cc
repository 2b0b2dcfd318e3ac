// Dispatch of MADs, the queues to the network and to the owners, and simple queries.
#include "cm/endpoint.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "cm/private_octets.h"

namespace rrdma::cm {

Endpoint::Endpoint(const Settings& settings, const KeySource& keys)
    : settings_(settings), keys_(keys), table_(keys_) {}

Endpoint::~Endpoint() = default;

void Endpoint::handle_mad(Instant now, const MadAddresses& addresses, Octets octets) {
  const auto mad = wire::parse_cm_mad(octets);
  if (!mad.ok()) {
    ++counters_.malformed;
    return;
  }
  ++counters_.received[mad->message.index()];
  const Received in{.now = now, .addresses = addresses, .mad = *mad};
  std::visit([&](const auto& message) { handle(in, message); }, mad->message);
}

std::optional<OutgoingMad> Endpoint::poll_mad() {
  if (outgoing_.empty()) return std::nullopt;
  OutgoingMad mad = outgoing_.front();
  outgoing_.pop_front();
  return mad;
}

std::optional<Event> Endpoint::poll_event() {
  while (!events_.empty()) {
    PendingEvent pending = std::move(events_.front());
    events_.pop_front();
    Connection* connection = table_.find(pending.event.id);
    // Destroyed meanwhile: its owner gets no more events.
    if (connection == nullptr || connection->serial != pending.serial || !connection->owned) continue;
    connection->announced = true;
    pending.event.owner = connection->owner;
    return std::move(pending.event);
  }
  return std::nullopt;
}

std::vector<OwnerToken> Endpoint::owners_of(const MadAddresses& addresses, const wire::CmMad& mad) const {
  std::vector<OwnerToken> owners;
  const auto add = [&](const Connection* connection, const wire::Gid& near, const wire::Gid& far) {
    if (connection == nullptr || !connection->owned) return;
    if (connection->route.local == near && connection->route.remote == far)
      owners.push_back(connection->owner);
  };
  std::visit(
      [&](const auto& message) {
        if constexpr (requires { message.remote_comm_id; })
          add(table_.find({message.remote_comm_id.value}), addresses.local, addresses.remote);
        if constexpr (requires { message.local_comm_id; })  // the sender's own ID
          add(table_.find({message.local_comm_id.value}), addresses.remote, addresses.local);
        using Message = std::decay_t<decltype(message)>;
        constexpr bool kLooksUp = std::is_same_v<Message, wire::CmSidrReq>;
        if constexpr (kLooksUp)
          add(table_.find({message.request_id.value}), addresses.remote, addresses.local);
        if constexpr (std::is_same_v<Message, wire::CmSidrRep>)
          add(table_.find({message.request_id.value}), addresses.local, addresses.remote);
        if constexpr (kLooksUp || std::is_same_v<Message, wire::CmReq>) {
          const Listener* listener = listeners_.match(message.service_id, ip_header_of(message));
          if (listener != nullptr) owners.push_back(listener->parameters.owner);
        }
      },
      mad.message);
  return owners;
}

bool Endpoint::is_recipient(const MadAddresses& addresses, const wire::CmMad& mad) const {
  const auto knows = [&](wire::CommId id) {
    const Connection* connection = table_.find({id.value});
    return connection != nullptr && connection->route.local == addresses.local &&
           connection->route.remote == addresses.remote;
  };
  return std::visit(
      [&](const auto& message) {
        using Message = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<Message, wire::CmReq> || std::is_same_v<Message, wire::CmSidrReq>)
          return listeners_.match(message.service_id, ip_header_of(message)) != nullptr;
        else if constexpr (std::is_same_v<Message, wire::CmSidrRep>)
          return knows({message.request_id.value});
        else
          return knows(message.remote_comm_id);
      },
      mad.message);
}

Result<void, Error> Endpoint::set_owner(ConnectionId id, OwnerToken owner) {
  Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  connection->owner = owner;
  return {};
}

std::optional<State> Endpoint::state_of(ConnectionId id) const {
  const Connection* connection = owned(id);
  if (connection == nullptr) return std::nullopt;
  return connection->state;
}

Result<QpAttributes, Error> Endpoint::qp_attributes(ConnectionId id, QpStep step) const {
  const Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  if (!attributes_known(connection->state, step)) return Failure{Error::kWrongState};
  return attributes_of(*connection);
}

Result<EstablishedConnection, Error> Endpoint::snapshot(ConnectionId id) const {
  const Connection* connection = owned(id);
  if (connection == nullptr) return Failure{Error::kUnknownConnection};
  if (connection->state != State::kEstablished) return Failure{Error::kWrongState};
  return static_cast<const EstablishedConnection&>(*connection);
}

Result<void, Error> Endpoint::restore(const EstablishedConnection& from, OwnerToken owner) {
  if (from.id.value == 0) return Failure{Error::kIdInUse};
  if (!make_room()) return Failure{Error::kTooManyConnections};
  const bool remote_taken =
      table_.find_remote(RemoteKind::kCommId, from.route.remote, from.remote_id.value) != nullptr ||
      table_.find_remote(RemoteKind::kQpn, from.route.remote, from.remote_qpn.value) != nullptr;
  if (remote_taken) return Failure{Error::kIdInUse};
  Connection* connection = table_.create_with_id(from.id);
  if (connection == nullptr) return Failure{Error::kIdInUse};
  static_cast<EstablishedConnection&>(*connection) = from;
  connection->state = State::kEstablished;
  connection->owner = owner;
  // Do not trust the times that a program saved.
  connection->ack_timeout = std::min(from.ack_timeout, kTimeCodeMax);
  connection->max_cm_retries = std::min(from.max_cm_retries, kDefaultCmRetries);
  connection->response_timeout = std::clamp(from.response_timeout, milliseconds(1), seconds(60));
  table_.file(RemoteKind::kCommId, *connection);
  table_.file(RemoteKind::kQpn, *connection);
  return {};
}

Connection* Endpoint::owned(ConnectionId id) const {
  Connection* connection = table_.find(id);
  return connection != nullptr && connection->owned ? connection : nullptr;
}

bool Endpoint::is_foreign(const Received& in, wire::CommId local_id) {
  const Connection* connection = table_.find(local_id);
  if (connection == nullptr) return false;
  if (connection->route.remote == in.addresses.remote && connection->route.local == in.addresses.local)
    return false;
  ++counters_.wrong_peer;
  return true;
}

// Adds only addresses that answered us, so that forged sources cannot fill the set.
void Endpoint::note_peer(const wire::Gid& peer) {
  if (known_peers_.size() >= settings_.known_peers_max) known_peers_.clear();
  known_peers_.insert(peer);
}

void Endpoint::count_duplicate(const Received& in) { ++counters_.duplicates[in.mad.message.index()]; }

bool Endpoint::make_room() {
  if (table_.size() < settings_.connections_max) return true;
  if (tombstone_list_.empty()) return false;
  ++counters_.tombstones_evicted;
  erase(tombstone_list_.front());
  return true;
}

void Endpoint::send(Connection& connection, std::uint64_t transaction_id, wire::CmMessage message,
                    std::uint32_t modifier) {
  connection.last_sent = wire::emit_cm_mad(
      {.transaction_id = transaction_id, .attribute_modifier = modifier, .message = std::move(message)});
  resend(connection);
}

void Endpoint::resend(const Connection& connection) {
  RRDMA_ASSERT(connection.last_sent.has_value());
  queue_mad(connection.route, *connection.last_sent);
}

void Endpoint::answer(const Received& in, wire::CmMessage message) {
  queue_mad({.local = in.addresses.local,
             .remote = in.addresses.remote,
             .interface_index = in.addresses.interface_index},
            wire::emit_cm_mad({.transaction_id = in.mad.transaction_id, .message = std::move(message)}));
}

void Endpoint::queue_mad(const Route& route, const wire::MadBuffer& octets) {
  if (outgoing_.size() >= settings_.outgoing_max) {
    ++counters_.outgoing_lost;
    return;
  }
  // The attribute ID identifies the message.
  ++counters_.sent[index_of(static_cast<wire::CmAttribute>(octets[17]))];
  outgoing_.push_back({.route = route, .octets = octets});
}

void Endpoint::tell(const Connection& connection, EventDetails details, const PrivateData& private_data) {
  if (!connection.owned) return;
  events_.push_back({.serial = connection.serial,
                     .event = {.id = connection.id,
                               .owner = connection.owner,
                               .details = std::move(details),
                               .private_data = private_data}});
}

std::uint64_t Endpoint::new_transaction_id(const Connection& connection) {
  return std::uint64_t{keys_.next()} << 32 | connection.id.value;
}

// IBTA 12.6.9: RoCE has no alternate paths, so every LAP is answered and refused.
void Endpoint::handle(const Received& in, const wire::CmLap& lap) {
  if (is_foreign(in, lap.remote_comm_id)) return;
  const Connection* connection = table_.find(lap.remote_comm_id);
  wire::CmApr apr{.local_comm_id = lap.remote_comm_id,
                  .remote_comm_id = lap.local_comm_id,
                  .status = wire::AlternatePathStatus::kNotSupported};
  if (connection == nullptr || connection->state != State::kEstablished ||
      connection->remote_id != lap.local_comm_id) {
    apr.status = wire::AlternatePathStatus::kInvalidCommId;
  } else if (connection->local_qpn != lap.remote_qpn) {
    apr.status = wire::AlternatePathStatus::kInvalidQpn;
  }
  answer(in, apr);
}

// We never send a LAP.
void Endpoint::handle(const Received&, const wire::CmApr&) { ++counters_.unmatched; }

}  // namespace rrdma::cm
