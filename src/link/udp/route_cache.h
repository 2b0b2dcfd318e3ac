// RouteCache: what the kernel needs to send along a path, built once and kept: the address, the control
// messages (source address; hop limit and traffic class if not the default), the sockets of the source port
// and the seed of the ICRC. Direct-mapped. A route in use by the current batch is not evicted before the
// batch is sent.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "link/udp/send_ports.h"
#include "objects/path.h"
#include "wire/icrc.h"

namespace rrdma::link {

// sizeof(in6_pktinfo), which programs of the kernel's IPv6 headers (rdma_user_cm.h includes them) do not
// have.
inline constexpr std::size_t kPacketInfo6Octets = 20;
// Source address, hop limit, traffic class; then room for the segment size.
inline constexpr std::size_t kControlOctetsMax =
    CMSG_SPACE(kPacketInfo6Octets) + 2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(std::uint16_t));

union SocketAddress {
  sockaddr_in v4;
  sockaddr_in6 v6;
};

struct RouteKey {
  wire::Gid local;
  wire::Gid remote;
  std::uint16_t port_index = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t interface_index = 0;
  friend bool operator==(const RouteKey&, const RouteKey&) = default;
};

struct Route {
  RouteKey key;
  std::optional<wire::IcrcSeed> seed;  // none: the entry is empty
  SocketAddress address{};
  socklen_t address_octets = 0;
  int plain = -1;           // descriptors of the source port
  int segmenting = -1;      // -1: no segmented sends on this path
  std::uint64_t batch = 0;  // the last batch that used it
  std::size_t control_octets = 0;
  alignas(cmsghdr) std::array<std::uint8_t, kControlOctetsMax> control{};
};

class RouteCache {
 public:
  // The pools must outlive the cache; one may be empty.
  RouteCache(const SendPorts& ipv4, const SendPorts& ipv6, std::uint32_t interface_index);

  enum class Verdict : std::uint8_t {
    kFound,
    kInUse,     // another route of this batch occupies its place
    kNoSocket,  // no socket of this family, or ends of different families
  };
  struct Found {
    Verdict verdict = Verdict::kNoSocket;
    Route* route = nullptr;
  };
  // `batch`: the number of the current batch; numbers increase.
  [[nodiscard]] Found find(const objects::Path& path, std::uint64_t batch);
  // The UDP source port of packets on this path; 0 if they cannot be sent.
  [[nodiscard]] std::uint16_t source_port(const objects::Path& path) const;

 private:
  static constexpr std::size_t kRoutes = 128;

  [[nodiscard]] const SendPorts& ports_of(const objects::Path& path) const;
  void fill(Route& route, const RouteKey& key) const;

  const SendPorts& ipv4_;
  const SendPorts& ipv6_;
  const std::uint32_t interface_index_;
  std::vector<Route> routes_;
};

// Appends one control message after `used` bytes. Returns the new length.
std::size_t append_control(std::uint8_t* control, std::size_t used, int level, int type, const void* value,
                           std::size_t octets);

}  // namespace rrdma::link
