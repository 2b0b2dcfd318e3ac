// Decodes frames of rrdma::rpc (docs/rpc-protocol.md) inside SENDs. The handshakes reveal which connections
// carry them; the caller may also state it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/octets.h"
#include "dissection/packet_dissection.h"
#include "dissection/packet_field.h"
#include "lib/rpc/frame.h"
#include "tools/decode/connections.h"
#include "wire/pcap_reader.h"

namespace rrdma::tools {

class RpcFrames {
 public:
  // `everywhere`: assume a frame at the start of every SEND of a reliable connection, in case the capture
  // lacks the handshake. `methods`: method paths to show by name; those of the built-in services are known,
  // and captures of RRDMA name the others.
  RpcFrames(bool everywhere, const std::vector<std::string>& methods);

  // Call this for every packet of the capture in order, before showing any.
  void learn(const wire::Dissection& packet);
  // Likewise for every note: some name methods.
  void learn(const wire::CaptureNote& note);

  // Whether a handshake of rrdma::rpc was seen.
  [[nodiscard]] bool any() const { return !ends_.empty(); }
  // The frames of one packet, for a list of calls. Kinds that no call needs are left out.
  struct Summary {
    enum class Kind : std::uint8_t { kCall, kReply, kItem };
    Kind kind = Kind::kCall;
    std::uint32_t call = 0;
    std::string method;  // of a call
    std::string status;  // of a reply: "OK"
    std::size_t octets = 0;
  };
  [[nodiscard]] std::vector<Summary> summaries(const wire::Dissection& packet) const;

  // `rpc CALL 0x00010000 rrdma.Health/check, 0 octets`. Empty if there is no frame. `payload`: its captured
  // part.
  [[nodiscard]] std::string line(const wire::Dissection& packet, Octets payload) const;
  // The same as a group of fields, for frames and for the hello messages in connection handshakes.
  void add_fields(wire::Field& root, const wire::Dissection& packet, Octets payload) const;

 private:
  using End = std::pair<wire::Gid, std::uint32_t>;     // an address and a queue pair
  static constexpr std::size_t kMethodsMax = 100'000;  // of notes

  // Whether a message of rrdma::comm that may carry a frame begins in this packet.
  [[nodiscard]] bool begins_message(const wire::Dissection& packet) const;
  [[nodiscard]] std::string method_text(std::uint64_t number) const;
  // `body`: size of the frame's body, of which only a part may be captured.
  [[nodiscard]] std::string frame_text(const rpc::detail::Frame& frame, std::size_t body) const;
  void add_frame(wire::Field& group, const rpc::detail::Frame& frame, std::size_t body) const;

  bool everywhere_;
  std::map<std::uint64_t, std::string> methods_;
  std::map<End, wire::Qpn> callers_;  // address and communication ID of a REQ
  std::set<End> ends_;
};

}  // namespace rrdma::tools
