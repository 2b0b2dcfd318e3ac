// Requests and responses of connections: finds retransmitted and missing PSNs, and matches responses with
// requests.
#include <algorithm>
#include <deque>

#include "inspect/analysis.h"

namespace rrdma::tools {
namespace {

using wire::Psn;

struct Outstanding {
  Psn psn;
  std::uint32_t packets = 1;  // number of PSNs; more than one for a READ's response
  std::uint32_t first = kNoIndex;
  std::uint32_t last = kNoIndex;  // the latest retransmission
  std::uint32_t sent = 1;         // number of transmissions
};

// One side of a connection as a requester, and its responses to the other side.
struct Side {
  bool begun = false;
  Psn newest;                       // the highest PSN sent
  std::deque<Outstanding> waiting;  // by PSN
  bool has_responded = false;
  Psn newest_response;
};

class Follower {
 public:
  Follower(Analysis& analysis, std::span<const std::uint32_t> spans)
      : analysis_(analysis), columns_(analysis.columns), spans_(spans), sides_(analysis.connections.size()) {}

  void follow(std::uint32_t at) {
    const std::uint32_t connection = columns_.connection[at];
    if (connection == kNoIndex || (columns_.marks[at] & kMarkBad) != 0) return;
    const wire::Transport transport = analysis_.connections[connection].transport;
    const bool reliable = transport == wire::Transport::kReliableConnection ||
                          transport == wire::Transport::kExtendedReliableConnection;
    if (!reliable && transport != wire::Transport::kUnreliableConnection) return;
    const std::size_t sender = (columns_.marks[at] & kMarkFromB) != 0 ? 1 : 0;
    const wire::OpcodeShape& shape = wire::shape_of(wire::Opcode(columns_.opcode[at]));
    if (shape.request) {
      request(at, connection, sender, reliable);
    } else if (reliable) {
      answer(at, sides_[connection][sender], sides_[connection][1 - sender], shape);
    }
  }

  // Reports requests that were retransmitted and never answered.
  void find_silence() {
    for (std::uint32_t connection = 0; connection < sides_.size(); ++connection) {
      for (const Side& side : sides_[connection]) {
        if (side.waiting.empty()) continue;
        const Outstanding& oldest = side.waiting.front();
        if (oldest.sent < kSilenceSends) continue;
        analysis_.findings.push_back({.kind = CaptureFinding::Kind::kSilence,
                                      .connection = connection,
                                      .code = oldest.sent,
                                      .count = 1,
                                      .packets = {oldest.first, oldest.last}});
      }
    }
  }

 private:
  static constexpr std::size_t kWaitingMax = 1 << 17;
  static constexpr std::uint32_t kSilenceSends = 4;

  void mark(std::uint32_t at, PacketMark mark) {
    columns_.marks[at] = static_cast<std::uint16_t>(columns_.marks[at] | mark);
  }

  void request(std::uint32_t at, std::uint32_t connection, std::size_t sender, bool reliable) {
    Side& side = sides_[connection][sender];
    const Psn psn(columns_.psn[at]);
    const std::uint32_t mtu = analysis_.connections[connection].mtu;
    const std::uint32_t packets = std::max<std::uint32_t>(1, (spans_[at] + mtu - 1) / mtu);
    const std::int32_t ahead = side.begun ? psn.since(side.newest) : 1;
    if (ahead <= 0) {
      if (reliable) again(at, side, psn);
      return;
    }
    if (ahead > 1) {
      mark(at, kMarkGap);
      analysis_.connections[connection].ends[sender].missing += static_cast<std::uint32_t>(ahead - 1);
    }
    side.begun = true;
    side.newest = psn + (packets - 1);
    if (!reliable) return;
    if (side.waiting.size() == kWaitingMax) side.waiting.pop_front();
    side.waiting.push_back({psn, packets, at, at, 1});
  }

  void again(std::uint32_t at, Side& side, Psn psn) {
    mark(at, kMarkRepeat);
    const auto found =
        std::lower_bound(side.waiting.begin(), side.waiting.end(), psn,
                         [](const Outstanding& waiting, Psn wanted) { return waiting.psn.before(wanted); });
    if (found != side.waiting.end() && found->psn == psn) {
      found->last = at;
      ++found->sent;
    } else if (side.waiting.size() < kWaitingMax) {
      // The first copy was lost before the capture point, or was already answered.
      side.waiting.insert(found, {psn, 1, at, at, 1});
    }
  }

  void answer(std::uint32_t at, Side& responder, Side& requester, const wire::OpcodeShape& shape) {
    const Psn psn(columns_.psn[at]);
    if (shape.kind == wire::Kind::kReadResponse) {
      if (responder.has_responded && psn.since(responder.newest_response) <= 0)
        mark(at, kMarkRepeat);
      else
        responder.newest_response = psn;
      responder.has_responded = true;
    }
    // An arrival map names the first missing packet, as a NAK does.
    const bool refuses =
        (columns_.marks[at] & (kMarkNak | kMarkRnrNak)) != 0 || shape.kind == wire::Kind::kArrivals;
    auto& waiting = requester.waiting;
    // A response also acknowledges all earlier requests. A refused request waits for its retransmission.
    while (!waiting.empty() && waiting.front().psn.before(psn)) {
      const Outstanding& front = waiting.front();
      if (front.packets > 1 && psn.before(front.psn + front.packets)) {
        columns_.partner[at] = front.first;
        if (shape.ends_message) retire(waiting, at);
        return;
      }
      retire(waiting, at);
    }
    if (waiting.empty() || waiting.front().psn != psn) return;
    columns_.partner[at] = waiting.front().last;
    if (refuses) return;
    if (shape.kind == wire::Kind::kReadResponse && !shape.ends_message) return;
    retire(waiting, at);
  }

  void retire(std::deque<Outstanding>& waiting, std::uint32_t answer) {
    columns_.partner[waiting.front().first] = answer;
    columns_.partner[waiting.front().last] = answer;
    waiting.pop_front();
  }

  Analysis& analysis_;
  PacketColumns& columns_;
  std::span<const std::uint32_t> spans_;
  std::vector<std::array<Side, 2>> sides_;
};

}  // namespace

void follow_exchanges(Analysis& analysis, std::span<const std::uint32_t> spans) {
  Follower follower(analysis, spans);
  for (std::uint32_t at = 0; at < analysis.columns.size(); ++at) follower.follow(at);
  follower.find_silence();
}

}  // namespace rrdma::tools
