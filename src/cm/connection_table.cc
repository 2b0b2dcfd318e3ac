#include "cm/connection_table.h"

#include "base/assert.h"
#include "base/octets.h"

namespace rrdma::cm {

ConnectionTable::ConnectionTable(KeySource& keys)
    : by_remote_(0, Hash{keys.next_wide(), keys.next_wide()}),
      id_order_(keys.branch()),
      next_number_(keys.next()) {}

Connection* ConnectionTable::find(ConnectionId id) const {
  const auto found = by_id_.find(id.value);
  return found == by_id_.end() ? nullptr : found->second.get();
}

Connection* ConnectionTable::find_remote(RemoteKind kind, const wire::Gid& peer, std::uint32_t number) const {
  const auto found = by_remote_.find({.peer = peer, .number = number, .kind = kind});
  return found == by_remote_.end() ? nullptr : found->second;
}

Connection& ConnectionTable::create() {
  while (true) {
    const ConnectionId id{id_order_(next_number_++, 32)};
    if (id.value == 0) continue;  // means "none" on the wire
    if (Connection* connection = create_with_id(id)) return *connection;
  }
}

Connection* ConnectionTable::create_with_id(ConnectionId id) {
  auto [place, fresh] = by_id_.try_emplace(id.value);
  if (!fresh) return nullptr;
  place->second = std::make_unique<Connection>();
  place->second->id = id;
  place->second->serial = next_serial_++;
  return place->second.get();
}

void ConnectionTable::destroy(Connection& connection) {
  for (const auto kind : {RemoteKind::kCommId, RemoteKind::kQpn, RemoteKind::kLookup})
    unfile(kind, connection);
  by_id_.erase(connection.id.value);
}

void ConnectionTable::file(RemoteKind kind, Connection& connection) {
  const bool fresh = by_remote_.try_emplace(key_of(kind, connection), &connection).second;
  RRDMA_ASSERT(fresh);
}

void ConnectionTable::unfile(RemoteKind kind, const Connection& connection) {
  const auto found = by_remote_.find(key_of(kind, connection));
  if (found != by_remote_.end() && found->second == &connection) by_remote_.erase(found);
}

ConnectionTable::RemoteKey ConnectionTable::key_of(RemoteKind kind, const Connection& connection) {
  return {.peer = connection.route.remote,
          .number = kind == RemoteKind::kQpn ? connection.remote_qpn.value : connection.remote_id.value,
          .kind = kind};
}

std::size_t ConnectionTable::Hash::operator()(const RemoteKey& key) const {
  std::uint64_t h = keyed_hash(key_low, key_high, load_native<std::uint64_t>(key.peer.octets.data()));
  h = keyed_hash(h, key_high, load_native<std::uint64_t>(key.peer.octets.data() + 8));
  return keyed_hash(h, key_high, std::uint64_t{key.number} << 8 | static_cast<std::uint64_t>(key.kind));
}

}  // namespace rrdma::cm
