// RouteCache: what the kernel must be told to send along a path, made once and kept: the address, the
// control messages (source address; hop limit and traffic class where they are not the default), the
// source port's sockets and the seed of the ICRC. Direct-mapped; a route that a batch in the making
// points to is not thrown out before the batch is sent.
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

// Source address, hop limit, traffic class; room for the segment size behind them.
inline constexpr std::size_t kControlOctetsMax =
    CMSG_SPACE(sizeof(in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(std::uint16_t));

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
  int segmenting = -1;      // -1: this path takes no segmented sends
  std::uint64_t batch = 0;  // the last one that used it
  std::size_t control_octets = 0;
  alignas(cmsghdr) std::array<std::uint8_t, kControlOctetsMax> control{};
};

class RouteCache {
 public:
  // The pools must outlive the cache; one may be empty.
  RouteCache(const SendPorts& ipv4, const SendPorts& ipv6, std::uint32_t interface_index);

  enum class Verdict : std::uint8_t {
    kFound,
    kInUse,     // its place is held by another route of this batch
    kNoSocket,  // no socket of this family, or two ends of different families
  };
  struct Found {
    Verdict verdict = Verdict::kNoSocket;
    Route* route = nullptr;
  };
  // `batch` numbers the batch in the making; numbers grow.
  [[nodiscard]] Found find(const objects::Path& path, std::uint64_t batch);
  // The UDP source port that packets of this path carry; 0 when they cannot be sent.
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

// Appends one control message and returns its place behind `used`.
std::size_t append_control(std::uint8_t* control, std::size_t used, int level, int type, const void* value,
                           std::size_t octets);

}  // namespace rrdma::link
