// SendPorts: the sockets from which a process sends, for one family. Slot sockets only receive: packets sent
// from them would carry source port 4791, without entropy for switches.
//
// A port is two sockets with one number. The plain one sends checksum 0 and, on IPv4, identification 0 with
// DF. The kernel refuses segmented sends without a checksum, so those use the twin, which numbers its packets
// 0, 1, 2, … (docs/adr/0017). A port is exclusive: it is bound alone before the twin joins, and then closed
// to others again. Nothing is ever received on it; a filter drops packets that arrive there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "link/udp/udp_config.h"

namespace rrdma::link {

struct SendPort {
  std::uint16_t number = 0;
  OwnedFd plain;
  OwnedFd segmenting;  // invalid if the configuration wants none
};

class SendPorts {
 public:
  SendPorts() = default;

  // `family` is AF_INET or AF_INET6. `seed` selects the first candidate.
  [[nodiscard]] static Result<SendPorts, SocketFailure> open(int family, const UdpConfig& config,
                                                             std::uint64_t seed);

  [[nodiscard]] bool empty() const { return ports_.empty(); }
  [[nodiscard]] std::span<const SendPort> ports() const { return ports_; }
  // The port for `wanted`: `wanted` itself if we own it, otherwise always the same one. REQUIRES: !empty().
  [[nodiscard]] std::size_t index_for(std::uint16_t wanted) const;

 private:
  std::vector<SendPort> ports_;
};

}  // namespace rrdma::link
