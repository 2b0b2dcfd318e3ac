#include "cm/connection_table.h"

#include <utility>

#include "base/assert.h"
#include "base/octets.h"

namespace rrdma::cm {

ConnectionTable::ConnectionTable(Prng& prng) : by_remote_(0, Hash{prng.next()}) {
  for (auto& key : id_keys_) key = static_cast<std::uint32_t>(prng.next());
  next_number_ = static_cast<std::uint32_t>(prng.next());
}

// A four-round Feistel network: a permutation for any round function.
std::uint32_t ConnectionTable::permute(std::uint32_t number) const {
  auto left = static_cast<std::uint16_t>(number >> 16);
  auto right = static_cast<std::uint16_t>(number);
  for (const std::uint32_t key : id_keys_) {
    std::uint32_t mixed = (right ^ key) * 0x9e3779b1u;
    mixed = (mixed ^ mixed >> 15) * 0x85ebca77u;
    left = static_cast<std::uint16_t>(left ^ mixed >> 16);
    std::swap(left, right);
  }
  return static_cast<std::uint32_t>(left) << 16 | right;
}

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
    const ConnectionId id{permute(next_number_++)};
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
  const auto mix = [](std::uint64_t h, std::uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15;
    return h ^ h >> 29;
  };
  std::uint64_t h = mix(seed, load_native<std::uint64_t>(key.peer.octets.data()));
  h = mix(h, load_native<std::uint64_t>(key.peer.octets.data() + 8));
  return mix(h, std::uint64_t{key.number} << 8 | static_cast<std::uint64_t>(key.kind));
}

}  // namespace rrdma::cm
