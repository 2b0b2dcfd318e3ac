// PortTable: the ports of ids in each port space, for all programs of this daemon. TCP, UDP and IB are three
// separate spaces, unrelated to the kernel's sockets.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/keys/keyed_order.h"
#include "base/result.h"
#include "control/cm_messages.h"

namespace rrdma::daemon {

// Identifies an id of a program: client serial << 32 | number.
using CmOwner = std::uint64_t;

struct PortClaim {
  CmOwner owner = 0;
  wire::PortSpace port_space = wire::PortSpace::kTcp;
  std::uint16_t port = 0;
  control::CmFamily family = control::CmFamily::kIpv4;
  wire::Gid address;  // zero: the wildcard
  bool reuse = false;
  bool family_only = false;
  bool listening = false;
};

class PortTable {
 public:
  explicit PortTable(KeySource keys) : next_ephemeral_(keys.next()), order_(keys) {}

  // Returns the port, or an errno: EADDRINUSE, EINVAL (already bound). Two ids may share a port if both allow
  // reuse, or if their addresses do not overlap.
  Result<std::uint16_t, int> bind(const PortClaim& wanted);
  // Marks the claim as a listener; EADDRINUSE if another id of the same address already listens.
  Result<void, int> listen(CmOwner owner);
  void release(CmOwner owner);
  [[nodiscard]] const PortClaim* find(CmOwner owner) const;
  [[nodiscard]] std::size_t size() const { return claims_.size(); }

  // The ports for binds without a port number.
  static constexpr std::uint16_t kEphemeralFirst = 32768;
  static constexpr std::uint16_t kEphemeralCount = 28232;  // the default of Linux
  [[nodiscard]] static bool is_ephemeral(std::uint16_t port) {
    return port >= kEphemeralFirst && port < kEphemeralFirst + kEphemeralCount;
  }

 private:
  using Key = std::uint32_t;
  static Key key_of(wire::PortSpace port_space, std::uint16_t port) {
    return static_cast<std::uint32_t>(port_space) << 16 | port;
  }
  [[nodiscard]] bool is_free(const PortClaim& wanted, bool may_reuse) const;
  [[nodiscard]] std::uint16_t choose_port(wire::PortSpace port_space);

  std::map<CmOwner, PortClaim> claims_;
  std::unordered_map<Key, std::vector<CmOwner>> by_port_;
  std::uint32_t next_ephemeral_;
  const KeyedOrder order_;
};

}  // namespace rrdma::daemon
