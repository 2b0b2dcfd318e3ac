// The cost of losses: for each packet that was lost, the packet that repaired it, the reason why its sender
// repeated it, and the number of messages that waited meanwhile. A responder delivers in order, so everything
// that was sent behind a loss waits.
#include <algorithm>
#include <unordered_map>

#include "inspect/analysis.h"

namespace rrdma::tools {
namespace {

using wire::Psn;

// A sender that repeats after silence of less than this has probed: acknowledgement time-outs are longer
// (4.096 us times a power of two, 8 ms and more in practice), and the tail probe takes a few round trips.
constexpr double kTimeoutNsMin = 4e6;

struct Loss {
  std::uint32_t packet = kNoIndex;  // the lost one, or the one that shows the gap
  std::uint32_t messages = 0;       // that the sender had ended when it was lost
};

struct LosingSide {
  std::unordered_map<std::uint32_t, Loss> open;  // by PSN
  bool begun = false;
  Psn newest;
  std::uint32_t messages = 0;
  double last_sent_ns = 0;  // any packet of this side
  double last_nak_ns = -1;  // that this side received
};

class Repairer {
 public:
  explicit Repairer(Analysis& analysis)
      : analysis_(analysis), columns_(analysis.columns), sides_(analysis.connections.size()) {}

  void follow(std::uint32_t at) {
    const std::uint32_t connection = columns_.connection[at];
    if (connection == kNoIndex || has(at, kMarkBad)) return;
    const std::size_t sender = has(at, kMarkFromB) ? 1 : 0;
    LosingSide& side = sides_[connection][sender];
    const wire::OpcodeShape& shape = wire::shape_of(wire::Opcode(columns_.opcode[at]));
    const bool carries = shape.request || shape.kind == wire::Kind::kReadResponse;
    if (carries) carry(at, side);
    side.last_sent_ns = columns_.time_ns[at];
    const bool names_gap = has(at, kMarkNak) || shape.kind == wire::Kind::kArrivals;
    if (names_gap && !has(at, kMarkLost)) sides_[connection][1 - sender].last_nak_ns = columns_.time_ns[at];
  }

  void settle() {
    for (const auto& sides : sides_) {
      for (const LosingSide& side : sides)
        for (const auto& [psn, loss] : side.open) add({loss.packet, kNoIndex, Repair::By::kNothing, 0});
    }
    auto& list = analysis_.repairs;
    std::sort(list.begin(), list.end(), [](const Repair& a, const Repair& b) { return a.lost < b.lost; });
  }

 private:
  static constexpr std::size_t kOpenMax = 4096;

  [[nodiscard]] bool has(std::uint32_t at, PacketMark mark) const { return (columns_.marks[at] & mark) != 0; }

  void carry(std::uint32_t at, LosingSide& side) {
    const Psn psn(columns_.psn[at]);
    const bool ahead = !side.begun || psn.since(side.newest) > 0;
    // PSNs that never reached the capture point.
    if (has(at, kMarkGap) && side.begun) {
      for (Psn missing = side.newest + 1; missing != psn && side.open.size() < kOpenMax;
           missing = missing + 1)
        side.open.try_emplace(missing.value, Loss{at, side.messages});
    }
    if (ahead) side.newest = psn;
    side.begun = true;
    const auto open = side.open.find(psn.value);
    if (has(at, kMarkLost)) {
      if (open == side.open.end() && side.open.size() < kOpenMax) side.open[psn.value] = {at, side.messages};
    } else if (open != side.open.end()) {
      repaired(at, side, open->second);
      side.open.erase(open);
    }
    if (has(at, kMarkEndsMessage) && !has(at, kMarkRepeat)) ++side.messages;
  }

  void repaired(std::uint32_t at, const LosingSide& side, const Loss& loss) {
    const double now = columns_.time_ns[at];
    const bool told = side.last_nak_ns >= columns_.time_ns[loss.packet];
    const Repair::By by = told                                      ? Repair::By::kNak
                          : now - side.last_sent_ns < kTimeoutNsMin ? Repair::By::kProbe
                                                                    : Repair::By::kTimeout;
    add({loss.packet, at, by, side.messages - loss.messages});
  }

  void add(const Repair& repair) {
    if (analysis_.repairs.size() < kRepairsMax) analysis_.repairs.push_back(repair);
  }

  Analysis& analysis_;
  const PacketColumns& columns_;
  std::vector<std::array<LosingSide, 2>> sides_;
};

}  // namespace

void find_repairs(Analysis& analysis) {
  Repairer repairer(analysis);
  for (std::uint32_t at = 0; at < analysis.columns.size(); ++at) repairer.follow(at);
  repairer.settle();
}

}  // namespace rrdma::tools
