// Frames of rrdma::rpc (docs/rpc-protocol.md) inside SENDs. Which connections carry them is learned from their handshakes, or said by who asks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/octets.h"
#include "lib/rpc/frame.h"
#include "tools/decode/connections.h"
#include "wire/packet_dissection.h"
#include "wire/packet_field.h"

namespace rrdma::tools {

class RpcFrames {
 public:
  // `everywhere`: every SEND of a reliable connection begins with a frame, though the capture may lack the handshake. `methods`: paths whose
  // numbers are to be told by name; those that every server has are known.
  RpcFrames(bool everywhere, const std::vector<std::string>& methods);

  // Every packet of the capture, in order, before any is shown.
  void learn(const wire::Dissection& packet);

  // "rpc CALL 0x00010000 rrdma.Health/check, 0 octets"; empty where there is no frame. `payload`: what was captured of it.
  [[nodiscard]] std::string line(const wire::Dissection& packet, Octets payload) const;
  // The same as a group of fields, for frames and for what both ends say of it when they connect.
  void add_fields(wire::Field& root, const wire::Dissection& packet, Octets payload) const;

 private:
  using End = std::pair<wire::Gid, std::uint32_t>;  // an address and a queue pair

  // Whether a message of rrdma::comm begins in this packet that may carry a frame.
  [[nodiscard]] bool begins_message(const wire::Dissection& packet) const;
  [[nodiscard]] std::string method_text(std::uint64_t number) const;
  // `body`: octets of the frame's body, of which less may be here.
  [[nodiscard]] std::string frame_text(const rpc::detail::Frame& frame, std::size_t body) const;
  void add_frame(wire::Field& group, const rpc::detail::Frame& frame, std::size_t body) const;

  bool everywhere_;
  std::map<std::uint64_t, std::string> methods_;
  std::map<End, wire::Qpn> callers_;  // address and communication ID of a REQ
  std::set<End> ends_;
};

}  // namespace rrdma::tools
