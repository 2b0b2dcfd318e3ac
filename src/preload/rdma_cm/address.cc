#include "preload/rdma_cm/address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

namespace rrdma::rdma_cm {

bool IpAddress::is_loopback() const {
  if (family == Family::kIpv4) return gid.octets[12] == 127;
  return gid == loopback_of(Family::kIpv6).gid;
}

bool IpAddress::is_link_local() const { return family == Family::kIpv6 && gid.is_link_local(); }

std::optional<IpAddress> address_of(const void* from, std::size_t size) {
  sa_family_t family = 0;
  if (size < sizeof family) return std::nullopt;
  std::memcpy(&family, from, sizeof family);
  IpAddress address;
  if (family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in v4;
    std::memcpy(&v4, from, sizeof v4);
    address.family = Family::kIpv4;
    address.port = ntohs(v4.sin_port);
    std::array<std::uint8_t, 4> octets;
    std::memcpy(octets.data(), &v4.sin_addr, 4);
    if (v4.sin_addr.s_addr != 0) address.gid = wire::gid_of_ipv4(octets);
    return address;
  }
  if (family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6;
    std::memcpy(&v6, from, sizeof v6);
    address.family = Family::kIpv6;
    address.port = ntohs(v6.sin6_port);
    address.scope = v6.sin6_scope_id;
    std::memcpy(address.gid.octets.data(), &v6.sin6_addr, 16);
    return address;
  }
  if (family == AF_IB && size >= sizeof(sockaddr_ib)) {
    sockaddr_ib ib;
    std::memcpy(&ib, from, sizeof ib);
    address.family = Family::kIb;
    std::memcpy(address.gid.octets.data(), ib.sib_addr.sib_raw, 16);
    address.service_id = be64toh(ib.sib_sid);
    address.port = static_cast<std::uint16_t>(address.service_id);
    return address;
  }
  return std::nullopt;
}

std::size_t emit_sockaddr(const IpAddress& address, void* to) {
  std::memset(to, 0, sizeof(sockaddr_storage));
  switch (address.family) {
    case Family::kNone: return 0;
    case Family::kIpv4: {
      sockaddr_in v4{};
      v4.sin_family = AF_INET;
      v4.sin_port = htons(address.port);
      if (!address.is_any()) std::memcpy(&v4.sin_addr, address.gid.octets.data() + 12, 4);
      std::memcpy(to, &v4, sizeof v4);
      return sizeof v4;
    }
    case Family::kIpv6: {
      sockaddr_in6 v6{};
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(address.port);
      v6.sin6_scope_id = address.is_link_local() ? address.scope : 0;
      std::memcpy(&v6.sin6_addr, address.gid.octets.data(), 16);
      std::memcpy(to, &v6, sizeof v6);
      return sizeof v6;
    }
    case Family::kIb: {
      sockaddr_ib ib{};
      ib.sib_family = AF_IB;
      std::memcpy(ib.sib_addr.sib_raw, address.gid.octets.data(), 16);
      ib.sib_sid = htobe64(address.service_id);
      ib.sib_sid_mask = ~std::uint64_t{0};
      std::memcpy(to, &ib, sizeof ib);
      return sizeof ib;
    }
  }
  return 0;
}

IpAddress address_of_gid(const wire::Gid& gid, std::uint16_t port) {
  return {.family = gid.is_ipv4() ? Family::kIpv4 : Family::kIpv6, .gid = gid, .port = port};
}

IpAddress wildcard_of(Family family) { return {.family = family}; }

IpAddress loopback_of(Family family) {
  IpAddress address{.family = family};
  if (family == Family::kIpv4) {
    address.gid = wire::gid_of_ipv4({127, 0, 0, 1});
  } else {
    address.gid.octets[15] = 1;
  }
  return address;
}

std::string text_of(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.family == Family::kIpv4) {
    const auto octets = address.is_any() ? std::array<std::uint8_t, 4>{} : address.gid.ipv4();
    ::inet_ntop(AF_INET, octets.data(), text, sizeof text);
    return std::string(text) + ":" + std::to_string(address.port);
  }
  ::inet_ntop(AF_INET6, address.gid.octets.data(), text, sizeof text);
  return "[" + std::string(text) + "]:" + std::to_string(address.port);
}

}  // namespace rrdma::rdma_cm
