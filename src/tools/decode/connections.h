// Finds the sender of a packet. A BTH names only the destination queue pair. The rest of the capture reveals
// the source: messages of the connection manager name both queue pairs, and a response carries the PSN of its
// request. A capture is therefore read twice: first to learn, then to show.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "dissection/packet_dissection.h"
#include "wire/gid.h"
#include "wire/numbers.h"

namespace rrdma::tools {

// IPv4 addresses are mapped to IPv6. REQUIRES: packet.frame.
struct PacketEnds {
  wire::Gid source;
  wire::Gid destination;
};
[[nodiscard]] PacketEnds ends_of(const wire::RoceFrame& frame);

class Connections {
 public:
  // Call this for every packet of the capture in order, then call settle().
  void learn(const wire::Dissection& packet);
  void settle();

  // The queue pair that sent the packet. Empty if the capture does not reveal it.
  [[nodiscard]] std::optional<wire::Qpn> source_qp(const wire::Dissection& packet) const;
  // The same, for connected packets from an address to a queue pair at another address.
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
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> votes_;  // flow, reverse flow
  std::map<Flow, wire::Qpn> sources_;
  std::map<std::pair<wire::Gid, std::uint32_t>, wire::Qpn> callers_;  // address and communication ID of a REQ
};

}  // namespace rrdma::tools
