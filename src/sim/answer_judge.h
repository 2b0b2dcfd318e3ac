// AnswerJudge: compares what responders report about arrivals with what has arrived. It sees every packet of
// a world:
//
//   an answer reports only packets that were delivered to its sender, whether as executed or as kept;
//   a packet that an arrival map has named stays named until the expected PSN passes it: its sender may
//   forget it.
//
// No completion would reveal a responder that breaks these rules, because probes repair the damage.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "link/sim/sim_network.h"
#include "wire/transport_packet.h"

namespace rrdma::sim {

class AnswerJudge final : public link::PacketObserver {
 public:
  // Calls `report` for each violation.
  explicit AnswerJudge(std::function<void(std::string)> report) : report_(std::move(report)) {}

  // From now on `receiver` takes requests from `sender`; `expected` is the first PSN.
  void connect(wire::Qpn receiver, wire::Qpn sender, wire::Psn expected, std::uint32_t mtu);

  void on_sent(const link::PacketView& packet, Instant now) override;
  void on_fate(const link::PacketView& packet, link::Fate fate, Instant now) override;

  // How often `sender` was told of a gap since then. Each time may cost it a retry.
  [[nodiscard]] std::size_t gaps_told(wire::Qpn sender, Instant since) const;

  // As above, for packets that are already parsed.
  void delivered(const wire::TransportPacket& packet, Instant now);
  void answered(const wire::TransportPacket& answer);

 private:
  // Positions count PSNs from the first expected one, so that they do not wrap.
  struct Conversation {
    std::uint32_t mtu = 256;
    wire::Psn psn;                  // of the position `front`
    std::int64_t front = 0;         // all before it were delivered
    std::set<std::int64_t> beyond;  // delivered beyond `front`
    std::set<std::int64_t> named;   // by the last arrival map
    std::int64_t expected = 0;      // by the last arrival map
    std::vector<Instant> gaps;      // when the sender was told of one
    [[nodiscard]] std::int64_t position(wire::Psn at) const { return front + at.since(psn); }
    [[nodiscard]] bool has(std::int64_t at) const { return at < front || beyond.count(at) != 0; }
  };
  void take_request(Conversation& to, const wire::TransportPacket& request);
  void judge_map(Conversation& talk, const wire::TransportPacket& map);
  void judge_executed(const Conversation& talk, const wire::TransportPacket& answer, std::int64_t end);
  void broken(const wire::TransportPacket& answer, const std::string& promise);

  std::function<void(std::string)> report_;
  std::map<std::uint32_t, Conversation> talks_;         // by the QPN of the receiver
  std::map<std::uint32_t, std::uint32_t> receiver_of_;  // by the QPN that its answers name
};

}  // namespace rrdma::sim
