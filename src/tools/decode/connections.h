// Who sends a packet. A BTH names the queue pair that it goes to, not the one that it comes from; the packets
// of a whole capture tell: messages of the connection manager name both, and an answer carries the PSN of the
// request that it answers. So a capture is read once to learn, and then to be shown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "wire/gid.h"
#include "wire/numbers.h"
#include "wire/packet_dissection.h"

namespace rrdma::tools {

// IPv4 addresses as mapped ones. REQUIRES: packet.frame.
struct PacketEnds {
  wire::Gid source;
  wire::Gid destination;
};
[[nodiscard]] PacketEnds ends_of(const wire::RoceFrame& frame);

class Connections {
 public:
  // Every packet of the capture, in order; then settle().
  void learn(const wire::Dissection& packet);
  void settle();

  // The queue pair that sent it; none if the capture does not tell.
  [[nodiscard]] std::optional<wire::Qpn> source_qp(const wire::Dissection& packet) const;
  // The same of connected packets that go from one address to a queue pair at another.
  [[nodiscard]] std::optional<wire::Qpn> source_qp(const PacketEnds& ends, wire::Qpn destination) const;

 private:
  // Packets from one address to a queue pair at another.
  using Flow = std::tuple<wire::Gid, wire::Gid, std::uint32_t>;

  void learn_from_cm(const wire::Dissection& packet);
  void learn_from_transport(const wire::Dissection& packet);
  std::uint32_t number_of(const Flow& flow);
  std::uint32_t number_of(const wire::Gid& source, const wire::Gid& destination);

  std::map<Flow, std::uint32_t> flows_;
  std::vector<Flow> flow_list_;
  std::map<std::pair<wire::Gid, wire::Gid>, std::uint32_t> routes_;
  std::unordered_map<std::uint64_t, std::uint32_t> requests_;  // route and PSN -> the flow that sent it last
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> votes_;  // flow, flow back
  std::map<Flow, wire::Qpn> sources_;
  std::map<std::pair<wire::Gid, std::uint32_t>, wire::Qpn> callers_;  // address and communication ID of a REQ
};

}  // namespace rrdma::tools
