// ConnectionTable: owns the connections of an Endpoint and finds them in O(1) by local communication ID and
// by the peer's identifiers. The peer's keys include its address, which it cannot choose freely. Their hash
// is keyed, so that an attacker cannot aim at one bucket.
//
// IDs are a counter behind a keyed permutation. The next one cannot be guessed. No ID is reused before all
// others were used, so that an old message is never taken for a new one.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/keys/key_source.h"
#include "base/keys/keyed_order.h"
#include "cm/connection.h"

namespace rrdma::cm {

enum class RemoteKind : std::uint8_t { kCommId, kQpn, kLookup };

class ConnectionTable {
 public:
  explicit ConnectionTable(KeySource& keys);

  [[nodiscard]] std::size_t size() const { return by_id_.size(); }
  [[nodiscard]] Connection* find(ConnectionId id) const;
  [[nodiscard]] Connection* find_remote(RemoteKind kind, const wire::Gid& peer, std::uint32_t number) const;

  // Creates a connection with an unused ID.
  Connection& create();
  // The same with a given ID. Null if it is in use.
  Connection* create_with_id(ConnectionId id);
  void destroy(Connection& connection);

  // Indexes the connection by the peer's identifier. REQUIRES: that entry is free.
  void file(RemoteKind kind, Connection& connection);
  // Undoes file() if the entry belongs to this connection.
  void unfile(RemoteKind kind, const Connection& connection);

 private:
  struct RemoteKey {
    wire::Gid peer;
    std::uint32_t number = 0;
    RemoteKind kind{};
    friend bool operator==(const RemoteKey&, const RemoteKey&) = default;
  };
  struct Hash {
    std::uint64_t key_low = 0, key_high = 0;
    std::size_t operator()(const RemoteKey& key) const;
  };
  static RemoteKey key_of(RemoteKind kind, const Connection& connection);

  std::unordered_map<std::uint32_t, std::unique_ptr<Connection>> by_id_;
  std::unordered_map<RemoteKey, Connection*, Hash> by_remote_;
  std::uint64_t next_serial_ = 1;
  const KeyedOrder id_order_;
  std::uint32_t next_number_ = 0;
};

}  // namespace rrdma::cm
