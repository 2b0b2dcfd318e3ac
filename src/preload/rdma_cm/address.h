// IpAddress: an IP address with its port; rdma_cm ids carry two. IPv4 addresses are stored as GIDs
// (::ffff:a.b.c.d), the wildcard as zeros; the family distinguishes 0.0.0.0 from ::.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "wire/gid.h"

namespace rrdma::rdma_cm {

enum class Family : std::uint8_t {
  kNone,
  kIpv4,
  kIpv6,
  kIb,  // AF_IB: only its wildcard, by which librdmacm checks whether the kernel knows the family
};

struct IpAddress {
  Family family = Family::kNone;
  wire::Gid gid;
  std::uint16_t port = 0;
  std::uint32_t scope = 0;       // interface of a link-local address
  std::uint64_t service_id = 0;  // kIb

  [[nodiscard]] bool is_any() const { return gid.is_zero(); }
  [[nodiscard]] bool is_loopback() const;
  [[nodiscard]] bool is_link_local() const;
  [[nodiscard]] bool is_multicast() const { return !is_any() && gid.is_multicast(); }
};

// Nothing if the size does not fit the family, or the family is not supported.
[[nodiscard]] std::optional<IpAddress> address_of(const void* sockaddr, std::size_t size);
// Writes the address into `to` (zeroed first) and returns its size; 0 for kNone.
// REQUIRES: room for a sockaddr_storage.
std::size_t emit_sockaddr(const IpAddress& address, void* to);
[[nodiscard]] IpAddress address_of_gid(const wire::Gid& gid, std::uint16_t port);
[[nodiscard]] IpAddress wildcard_of(Family family);
[[nodiscard]] IpAddress loopback_of(Family family);
// "10.0.0.1:7174", "[fe80::1]:7174"; for people.
[[nodiscard]] std::string text_of(const IpAddress& address);

}  // namespace rrdma::rdma_cm
