#include "inspect/analysis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

namespace rrdma::tools {
namespace {

using End = std::pair<wire::Gid, std::uint32_t>;  // address and queue pair

// Assigns each flow to a connection and to one of its sides.
class ConnectionFinder {
 public:
  ConnectionFinder(const Sightings& sightings, Analysis& analysis)
      : sightings_(sightings), analysis_(analysis) {
    places_.resize(sightings.flows.size());
  }

  struct Place {
    std::uint32_t connection = kNoIndex;
    bool from_b = false;
  };

  // `packet` is the first packet of the flow. The sender of a connection's first packet is side A.
  Place place_of(std::uint32_t flow, std::uint32_t packet) {
    if (places_[flow]) return *places_[flow];
    const Flow& its = sightings_.flows[flow];
    const End to{its.ends.destination, its.destination};
    const End from{its.ends.source, source_of(its)};
    const auto key =
        std::tuple(std::min(from, to), std::max(from, to), static_cast<std::uint8_t>(its.transport));
    auto [found, is_new] =
        numbers_.try_emplace(key, static_cast<std::uint32_t>(analysis_.connections.size()));
    if (is_new) {
      Connection& added = analysis_.connections.emplace_back();
      added.transport = its.transport;
      added.first = packet;
      added.ends[0].address = from.first;
      added.ends[0].qpn = from.second;
      added.ends[1].address = to.first;
      added.ends[1].qpn = to.second;
    }
    const ConnectionEnd& a = analysis_.connections[found->second].ends[0];
    places_[flow] = Place{found->second, !(a.address == from.first && a.qpn == from.second)};
    return *places_[flow];
  }

 private:
  [[nodiscard]] std::uint32_t source_of(const Flow& flow) const {
    if (flow.datagram_source != kNoIndex) return flow.datagram_source;
    const auto source = sightings_.connections.source_qp(flow.ends, wire::Qpn(flow.destination));
    return source ? source->value : kNoIndex;
  }

  const Sightings& sightings_;
  Analysis& analysis_;
  std::vector<std::optional<Place>> places_;
  std::map<std::tuple<End, End, std::uint8_t>, std::uint32_t> numbers_;
};

std::uint16_t marks_of(const Sighting& seen, bool lost) {
  const wire::OpcodeShape& shape = wire::shape_of(wire::Opcode(seen.opcode));
  unsigned marks = 0;
  if (seen.flow != kNoIndex) {
    const wire::Aeth aeth{seen.syndrome, 0};
    if (shape.request) marks |= kMarkRequest;
    if (shape.ends_message) marks |= kMarkEndsMessage;
    if (seen.ack_request) marks |= kMarkAckRequest;
    if (shape.aeth && aeth.is_nak()) marks |= kMarkNak;
    if (shape.aeth && aeth.is_rnr_nak()) marks |= kMarkRnrNak;
  }
  if (lost) marks |= kMarkLost;
  if (seen.bad) marks |= kMarkBad;
  if (seen.remarked) marks |= kMarkRemark;
  if (seen.congestion) marks |= kMarkCongestion;
  if (seen.direction == wire::PacketDirection::kInbound) marks |= kMarkArrival;
  return static_cast<std::uint16_t>(marks);
}

void reserve(PacketColumns& columns, std::size_t count) {
  columns.time_ns.reserve(count);
  columns.travel_ns.reserve(count);
  columns.connection.reserve(count);
  columns.psn.reserve(count);
  columns.octets.reserve(count);
  columns.partner.assign(count, kNoIndex);
  columns.number.reserve(count);
  columns.marks.reserve(count);
  columns.opcode.reserve(count);
  columns.syndrome.reserve(count);
  columns.rkey.reserve(count);
  columns.cm_message.reserve(count);
}

void add_packet(Analysis& analysis, const Sighting& seen, const Sighting* arrival, bool lost,
                ConnectionFinder::Place place) {
  PacketColumns& columns = analysis.columns;
  columns.time_ns.push_back(static_cast<double>(seen.time_ns - analysis.first_ns));
  columns.travel_ns.push_back(
      arrival == nullptr ? std::numeric_limits<float>::quiet_NaN()
                         : static_cast<float>(std::max<std::int64_t>(arrival->time_ns - seen.time_ns, 0)));
  columns.connection.push_back(place.connection);
  columns.psn.push_back(seen.psn);
  columns.octets.push_back(seen.octets);
  columns.number.push_back(seen.number);
  columns.marks.push_back(
      static_cast<std::uint16_t>(marks_of(seen, lost) | (place.from_b ? 1u * kMarkFromB : 0u)));
  columns.opcode.push_back(seen.opcode);
  columns.syndrome.push_back(seen.syndrome);
  columns.rkey.push_back(seen.rkey);
  columns.cm_message.push_back(seen.cm_message);
  analysis.where.push_back(seen.where);
}

void count_packets(Analysis& analysis) {
  const PacketColumns& columns = analysis.columns;
  for (std::uint32_t i = 0; i < columns.size(); ++i) {
    if (columns.connection[i] == kNoIndex) continue;
    Connection& connection = analysis.connections[columns.connection[i]];
    const unsigned marks = columns.marks[i];
    ConnectionEnd& sender = connection.ends[(marks & kMarkFromB) != 0 ? 1 : 0];
    const auto has = [marks](PacketMark mark) { return std::uint64_t{(marks & mark) != 0}; };
    ++sender.packets;
    sender.octets += columns.octets[i];
    sender.messages += has(kMarkRequest) & has(kMarkEndsMessage) & (1 - has(kMarkRepeat));
    sender.repeats += has(kMarkRepeat);
    sender.naks += has(kMarkNak);
    sender.rnr_naks += has(kMarkRnrNak);
    sender.lost += has(kMarkLost);
    connection.bad += has(kMarkBad);
    connection.congestion += has(kMarkCongestion);
  }
}

class FindingList {
 public:
  explicit FindingList(std::vector<CaptureFinding>& list) : list_(list) {}

  void add(CaptureFinding::Kind kind, std::uint32_t connection, std::uint32_t code, std::uint32_t packet) {
    const auto key = std::tuple(kind, connection, code);
    auto found = places_.find(key);
    if (found == places_.end()) {
      if (list_.size() == kFindingsMax) return;
      found = places_.emplace(key, list_.size()).first;
      list_.push_back({.kind = kind, .connection = connection, .code = code});
    }
    CaptureFinding& finding = list_[found->second];
    ++finding.count;
    if (finding.packets.size() < kFindingPacketsMax) finding.packets.push_back(packet);
  }

 private:
  std::vector<CaptureFinding>& list_;
  std::map<std::tuple<CaptureFinding::Kind, std::uint32_t, std::uint32_t>, std::size_t> places_;
};

// The connection that an explanation is about. Queue pair numbers repeat on other hosts, so the peer must
// fit, too.
std::uint32_t connection_of(const Analysis& analysis, const CaptureExplanation& explanation) {
  for (std::uint32_t i = 0; i < analysis.connections.size(); ++i) {
    const auto& ends = analysis.connections[i].ends;
    for (const std::size_t own : {0, 1}) {
      const ConnectionEnd& peer = ends[1 - own];
      if (!explanation.facts) {
        if (ends[own].qpn == explanation.qpn) return i;
        continue;
      }
      // Packets do not name their sender, so one end is unknown if nobody answered.
      const bool known = ends[own].qpn != kNoIndex || peer.qpn != kNoIndex;
      const bool fits = (ends[own].qpn == kNoIndex || ends[own].qpn == explanation.qpn) &&
                        (peer.qpn == kNoIndex || peer.qpn == explanation.facts->peer_qpn);
      if (known && fits && peer.address == explanation.facts->peer) return i;
    }
  }
  return kNoIndex;
}

bool is_failure(CaptureFinding::Kind kind) {
  return kind == CaptureFinding::Kind::kRefused || kind == CaptureFinding::Kind::kSilence ||
         kind == CaptureFinding::Kind::kNotReady || kind == CaptureFinding::Kind::kFailed;
}

// The last packet of the connection before the failure.
std::uint32_t packet_before(const Analysis& analysis, std::uint32_t connection, std::int64_t time_ns) {
  const PacketColumns& columns = analysis.columns;
  const auto end = std::upper_bound(columns.time_ns.begin(), columns.time_ns.end(),
                                    static_cast<double>(time_ns - analysis.first_ns));
  for (auto at = static_cast<std::uint32_t>(end - columns.time_ns.begin()); at-- > 0;)
    if (columns.connection[at] == connection) return at;
  return kNoIndex;
}

// Programs knew why their requests failed: the findings name it. A failure that no packet shows is a finding,
// too.
void add_explanations(Analysis& analysis) {
  for (std::uint32_t i = 0; i < analysis.explanations.size(); ++i) {
    const CaptureExplanation& explanation = analysis.explanations[i];
    const std::uint32_t connection = connection_of(analysis, explanation);
    bool told = false;
    for (CaptureFinding& finding : analysis.findings) {
      if (finding.connection != connection || connection == kNoIndex || !is_failure(finding.kind)) continue;
      finding.explained.push_back(i);
      told = true;
    }
    if (told || analysis.findings.size() >= kFindingsMax) continue;
    CaptureFinding added{.kind = CaptureFinding::Kind::kFailed, .connection = connection, .count = 1};
    added.code = explanation.facts ? explanation.facts->status : 0;
    added.explained.push_back(i);
    const std::uint32_t before =
        connection == kNoIndex ? kNoIndex : packet_before(analysis, connection, explanation.time_ns);
    if (before != kNoIndex) added.packets.push_back(before);
    analysis.findings.push_back(std::move(added));
  }
}

void name_owners(Analysis& analysis, const Sightings& sightings) {
  for (Connection& connection : analysis.connections) {
    for (ConnectionEnd& end : connection.ends) {
      const auto found = sightings.owners.find({end.address, end.qpn});
      if (found != sightings.owners.end()) end.owner = found->second;
    }
  }
}

void collect_findings(Analysis& analysis, std::span<const CmNote> notes) {
  const PacketColumns& columns = analysis.columns;
  FindingList findings(analysis.findings);
  for (std::uint32_t i = 0; i < columns.size(); ++i) {
    const unsigned marks = columns.marks[i];
    const std::uint32_t connection = columns.connection[i];
    const std::uint32_t code = columns.syndrome[i] & 0x1fu;
    if ((marks & kMarkNak) != 0)
      findings.add(code == 0 ? CaptureFinding::Kind::kSequence : CaptureFinding::Kind::kRefused, connection,
                   code, i);
    if ((marks & kMarkRnrNak) != 0) findings.add(CaptureFinding::Kind::kNotReady, connection, 0, i);
    if ((marks & (kMarkLost | kMarkGap)) != 0) findings.add(CaptureFinding::Kind::kLost, connection, 0, i);
    if ((marks & kMarkBad) != 0) findings.add(CaptureFinding::Kind::kBad, connection, 0, i);
  }
  for (const CmNote& note : notes) {
    const auto message = static_cast<wire::CmAttribute>(columns.cm_message[note.sighting]);
    if (message == wire::CmAttribute::kRej)
      findings.add(CaptureFinding::Kind::kRejected, columns.connection[note.sighting], note.reason,
                   note.sighting);
  }
  // One count of losses everywhere: a gap stands for all PSNs that are missing before a packet.
  for (CaptureFinding& finding : analysis.findings) {
    if (finding.kind != CaptureFinding::Kind::kLost || finding.connection == kNoIndex) continue;
    finding.count = 0;
    for (const ConnectionEnd& end : analysis.connections[finding.connection].ends)
      finding.count += end.lost + end.missing;
  }
  for (CaptureFinding& finding : analysis.findings) {
    if (finding.kind == CaptureFinding::Kind::kSilence && finding.connection != kNoIndex)
      finding.dies_of_hops = analysis.connections[finding.connection].hops_min <= 1;
  }
  add_explanations(analysis);
  std::stable_sort(analysis.findings.begin(), analysis.findings.end(),
                   [](const CaptureFinding& a, const CaptureFinding& b) { return a.kind < b.kind; });
}

}  // namespace

Analysis analyse(std::span<const CaptureInput> inputs, std::uint64_t packets_max) {
  Sightings sightings = read_sightings(inputs, packets_max);
  const Merged merged = merge_sightings(sightings);
  Analysis analysis;
  analysis.truncated = sightings.truncated;
  if (!sightings.list.empty()) analysis.first_ns = sightings.list.front().time_ns;
  reserve(analysis.columns, merged.packets.size());
  ConnectionFinder finder(sightings, analysis);
  std::vector<std::uint32_t> packet_of(sightings.list.size(), kNoIndex);
  std::vector<std::uint32_t> spans;
  for (std::uint32_t i = 0; i < merged.packets.size(); ++i) {
    const std::uint32_t at = merged.packets[i];
    const Sighting& seen = sightings.list[at];
    packet_of[at] = i;
    const auto place = seen.flow == kNoIndex ? ConnectionFinder::Place{} : finder.place_of(seen.flow, i);
    const std::uint32_t arrival = merged.arrival_of[i];
    add_packet(analysis, seen, arrival == kNoIndex ? nullptr : &sightings.list[arrival], merged.lost[i],
               place);
    spans.push_back(seen.span);
    if (place.connection == kNoIndex) continue;
    Connection& connection = analysis.connections[place.connection];
    connection.hops_min = std::min(connection.hops_min, seen.hops);
    while (connection.mtu < seen.octets && connection.mtu < 4096) connection.mtu *= 2;
  }
  std::vector<CmNote> notes;
  for (CmNote note : sightings.cm_notes) {
    note.sighting = packet_of[note.sighting];
    if (note.sighting != kNoIndex) notes.push_back(note);
  }
  for (auto& [at, remark] : sightings.remarks) {
    if (packet_of[at] != kNoIndex) analysis.remarks[packet_of[at]] = std::move(remark);
  }
  analysis.files = std::move(sightings.files);
  analysis.events = std::move(sightings.events);
  analysis.explanations = std::move(sightings.explanations);
  analysis.methods = std::move(sightings.methods);
  name_owners(analysis, sightings);
  follow_exchanges(analysis, spans);
  group_handshakes(analysis, notes);
  count_packets(analysis);
  collect_findings(analysis, notes);
  find_repairs(analysis);
  return analysis;
}

}  // namespace rrdma::tools
