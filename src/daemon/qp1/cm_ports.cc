#include "daemon/qp1/cm_ports.h"

#include <algorithm>
#include <cerrno>

namespace rrdma::daemon {
namespace {

constexpr unsigned kEphemeralBits = 15;  // enough for the count of ephemeral ports
// The maximum number of ids that share a port: every bind checks all of them.
constexpr std::size_t kSharersMax = 1024;

// Whether a call could match both.
bool overlap(const PortClaim& a, const PortClaim& b) {
  if (a.family != b.family) {
    // Only an IPv6 wildcard that is not restricted to IPv6 also claims IPv4.
    const PortClaim& v6 = a.family == control::CmFamily::kIpv6 ? a : b;
    return v6.address.is_zero() && !v6.family_only;
  }
  return a.address.is_zero() || b.address.is_zero() || a.address == b.address;
}

}  // namespace

Result<std::uint16_t, int> PortTable::bind(const PortClaim& wanted) {
  if (claims_.contains(wanted.owner)) return Failure{EINVAL};
  PortClaim claim = wanted;
  if (claim.port == 0) claim.port = choose_port(claim.port_space);
  if (claim.port == 0) return Failure{EADDRNOTAVAIL};
  if (!is_free(claim, claim.reuse)) return Failure{EADDRINUSE};
  auto& sharers = by_port_[key_of(claim.port_space, claim.port)];
  if (sharers.size() >= kSharersMax) return Failure{EADDRINUSE};
  sharers.push_back(claim.owner);
  claims_.emplace(claim.owner, claim);
  return claim.port;
}

bool PortTable::is_free(const PortClaim& wanted, bool may_reuse) const {
  const auto found = by_port_.find(key_of(wanted.port_space, wanted.port));
  if (found == by_port_.end()) return true;
  return std::none_of(found->second.begin(), found->second.end(), [&](CmOwner owner) {
    const PortClaim& other = claims_.at(owner);
    return owner != wanted.owner && !(may_reuse && other.reuse) && overlap(wanted, other);
  });
}

// Keyed permutation of all ports: a peer cannot predict the next port, and a released port does not return
// soon.
std::uint16_t PortTable::choose_port(wire::PortSpace port_space) {
  for (std::uint32_t i = 0; i < 1u << kEphemeralBits; ++i) {
    const std::uint32_t offset = order_(next_ephemeral_++ % (1u << kEphemeralBits), kEphemeralBits);
    if (offset >= kEphemeralCount) continue;
    const auto port = static_cast<std::uint16_t>(kEphemeralFirst + offset);
    if (!by_port_.contains(key_of(port_space, port))) return port;
  }
  return 0;
}

Result<void, int> PortTable::listen(CmOwner owner) {
  const auto found = claims_.find(owner);
  if (found == claims_.end() || found->second.listening) return Failure{EINVAL};
  for (const CmOwner other : by_port_.at(key_of(found->second.port_space, found->second.port))) {
    const PortClaim& claim = claims_.at(other);
    if (other != owner && claim.listening && overlap(claim, found->second)) return Failure{EADDRINUSE};
  }
  found->second.listening = true;
  return {};
}

void PortTable::release(CmOwner owner) {
  const auto found = claims_.find(owner);
  if (found == claims_.end()) return;
  const auto by_port = by_port_.find(key_of(found->second.port_space, found->second.port));
  std::erase(by_port->second, owner);
  if (by_port->second.empty()) by_port_.erase(by_port);
  claims_.erase(found);
}

const PortClaim* PortTable::find(CmOwner owner) const {
  const auto found = claims_.find(owner);
  return found == claims_.end() ? nullptr : &found->second;
}

}  // namespace rrdma::daemon
