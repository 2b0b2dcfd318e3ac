// NetworkReports: what routers and hosts answered by ICMP to packets that we sent. The kernel keeps such
// answers in the error queues of the sockets, and lets the next send fail once. The last answer about each
// destination is kept, so that a request that got no acknowledgement can tell the reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/instant.h"
#include "link/udp/send_ports.h"
#include "wire/gid.h"

namespace rrdma::link {

struct NetworkReport {
  enum class Kind : std::uint8_t { kNone, kHopsExceeded, kPortClosed, kUnreachable, kForbidden, kTooLong };
  Kind kind = Kind::kNone;
  wire::Gid destination;  // of the packet
  wire::Gid reporter;     // the router or host that dropped it
  std::uint32_t mtu = 0;  // kTooLong: bytes that the next link carries
  Instant seen;
};

class NetworkReports {
 public:
  static constexpr std::size_t kKept = 16;
  static constexpr Duration kValid = seconds(60);

  // Asks the kernel for reports to packets from these ports. The ports must outlive this object.
  NetworkReports(const SendPorts& ipv4, const SendPorts& ipv6);

  // Reads the error queues: one system call for each socket, and one for each report.
  void collect(Instant now);
  // The last report about packets to `destination`, unless it is old.
  [[nodiscard]] std::optional<NetworkReport> about(const wire::Gid& destination, Instant now) const;

 private:
  // Bounds the work if somebody floods us with ICMP.
  static constexpr int kReadMax = 64;
  void read_queue(int socket, Instant now);
  void keep(const NetworkReport& report);

  std::vector<int> sockets_;
  std::array<NetworkReport, kKept> kept_{};
  std::size_t next_ = 0;
};

}  // namespace rrdma::link
