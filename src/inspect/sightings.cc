// Reads captures and matches the departure and the arrival of each packet; see sighting.h.

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/format.h"
#include "inspect/sighting.h"
#include "tools/interrupt.h"

namespace rrdma::tools {
namespace {

// A host takes timestamps for whole bursts, so an arrival may appear slightly too early.
constexpr std::int64_t kStampSlackNs = 2'000'000;
constexpr std::size_t kPacketOctetsMin = 80;  // smallest RoCE packet in a file, including its record
constexpr std::size_t kRemarksMax = 100'000;
constexpr std::size_t kEventsMax = 10'000;
constexpr std::size_t kFlowsMax = 1'000'000;

struct CmIds {
  std::uint32_t local = 0;
  std::uint32_t remote = 0;
  std::uint32_t qpn = 0;
  std::uint32_t reason = 0;
};

CmIds ids_of(const wire::CmMessage& message) {
  if (const auto* req = std::get_if<wire::CmReq>(&message))
    return {req->local_comm_id.value, 0, req->local_qpn.value, 0};
  if (const auto* rep = std::get_if<wire::CmRep>(&message))
    return {rep->local_comm_id.value, rep->remote_comm_id.value, rep->local_qpn.value, 0};
  if (const auto* rej = std::get_if<wire::CmRej>(&message))
    return {rej->local_comm_id.value, rej->remote_comm_id.value, 0, static_cast<std::uint32_t>(rej->reason)};
  if (const auto* request = std::get_if<wire::CmSidrReq>(&message))
    return {request->request_id.value, 0, 0, 0};
  if (const auto* answer = std::get_if<wire::CmSidrRep>(&message))
    return {0, answer->request_id.value, answer->qpn.value, static_cast<std::uint32_t>(answer->status)};
  return std::visit(
      [](const auto& other) -> CmIds {
        if constexpr (requires { other.remote_comm_id; })
          return {other.local_comm_id.value, other.remote_comm_id.value, 0, 0};
        return {};
      },
      message);
}

using FlowKey = std::tuple<wire::Gid, wire::Gid, std::uint32_t, std::uint32_t, std::uint8_t>;

class FlowNumbers {
 public:
  explicit FlowNumbers(std::vector<Flow>& flows) : flows_(flows) {}

  std::uint32_t number_of(const Flow& flow) {
    const FlowKey key{flow.ends.source, flow.ends.destination, flow.destination, flow.datagram_source,
                      static_cast<std::uint8_t>(flow.transport)};
    if (last_ != kNoIndex && key == last_key_) return last_;
    const auto found = numbers_.find(key);
    if (found == numbers_.end() && flows_.size() == kFlowsMax) return kNoIndex;
    if (found == numbers_.end()) {
      last_ = static_cast<std::uint32_t>(flows_.size());
      numbers_.emplace(key, last_);
      flows_.push_back(flow);
    } else {
      last_ = found->second;
    }
    last_key_ = key;
    return last_;
  }

 private:
  std::vector<Flow>& flows_;
  std::map<FlowKey, std::uint32_t> numbers_;
  FlowKey last_key_;
  std::uint32_t last_ = kNoIndex;
};

bool congestion_experienced(const wire::RoceFrame& frame) {
  const auto* v4 = std::get_if<wire::Ipv4Header>(&frame.network);
  const auto* v6 = std::get_if<wire::Ipv6Header>(&frame.network);
  return ((v4 != nullptr ? v4->tos : v6 != nullptr ? v6->traffic_class : 0) & 3) == 3;
}

std::uint8_t hops_of(const wire::RoceFrame& frame) {
  const auto* v4 = std::get_if<wire::Ipv4Header>(&frame.network);
  const auto* v6 = std::get_if<wire::Ipv6Header>(&frame.network);
  return v4 != nullptr ? v4->ttl : v6 != nullptr ? v6->hop_limit : Sighting{}.hops;
}

Sighting sighting_of(const wire::Dissection& packet, const wire::CapturedPacket& captured,
                     FlowNumbers& flows) {
  Sighting seen;
  seen.time_ns = static_cast<std::int64_t>(captured.time_ns);
  seen.bad = packet.verdict == wire::PacketVerdict::kBad;
  seen.direction = captured.direction;
  seen.remarked = !captured.comments.empty();
  seen.where = {captured.octets.data(), static_cast<std::uint32_t>(captured.octets.size()),
                captured.original_octets, captured.link, 0};
  if (!packet.frame || !packet.transport) return seen;
  const wire::TransportHeaders& headers = packet.transport->headers;
  const wire::OpcodeShape& shape = wire::shape_of(headers.bth.opcode);
  seen.icrc = packet.frame->icrc;
  seen.hops = hops_of(*packet.frame);
  seen.congestion = congestion_experienced(*packet.frame) || shape.kind == wire::Kind::kCongestion;
  seen.psn = headers.bth.psn.value;
  seen.opcode = headers.bth.opcode.value;
  seen.syndrome = shape.aeth ? headers.aeth.syndrome : std::uint8_t{0};
  seen.rkey = shape.reth ? headers.reth.rkey.value : shape.atomic_eth ? headers.atomic.rkey.value : 0;
  seen.octets = static_cast<std::uint32_t>(packet.transport->payload.size());
  seen.span = shape.kind == wire::Kind::kReadRequest ? headers.reth.length : 1;
  seen.ack_request = headers.bth.ack_request;
  if (packet.cm) seen.cm_message = static_cast<std::uint8_t>(wire::attribute_of(packet.cm->message));
  // The opcode alone does not reveal that RRDMA's own packets belong to a reliable connection.
  const wire::Transport transport = shape.kind == wire::Kind::kArrivals ? wire::Transport::kReliableConnection
                                                                        : headers.bth.opcode.transport();
  seen.flow = flows.number_of({ends_of(*packet.frame), headers.bth.destination.value,
                               shape.deth ? headers.deth.source.value : kNoIndex, transport});
  return seen;
}

void sort_by_time(Sightings& sightings) {
  auto& list = sightings.list;
  const auto earlier = [](const Sighting& a, const Sighting& b) { return a.time_ns < b.time_ns; };
  if (std::is_sorted(list.begin(), list.end(), earlier)) return;
  std::vector<std::uint32_t> order(list.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&list](std::uint32_t a, std::uint32_t b) { return list[a].time_ns < list[b].time_ns; });
  std::vector<std::uint32_t> place(list.size());
  std::vector<Sighting> sorted;
  sorted.reserve(list.size());
  for (const std::uint32_t old : order) {
    place[old] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(list[old]);
  }
  list = std::move(sorted);
  for (CmNote& note : sightings.cm_notes) note.sighting = place[note.sighting];
  std::sort(sightings.cm_notes.begin(), sightings.cm_notes.end(),
            [](const CmNote& a, const CmNote& b) { return a.sighting < b.sighting; });
  std::map<std::uint32_t, std::string> remarks;
  for (auto& [old, remark] : sightings.remarks) remarks[place[old]] = std::move(remark);
  sightings.remarks = std::move(remarks);
}

void take_events(wire::PcapReader& reader, std::uint16_t index, Sightings& into) {
  for (const wire::CaptureNote& note : reader.take_notes()) {
    if (const std::string_view method = wire::method_named_in(note); !method.empty()) {
      if (into.methods.size() < kEventsMax) into.methods.emplace(method);
      continue;
    }
    if (into.events.size() == kEventsMax) continue;
    if (auto explanation = explanation_in(note)) {
      if (into.explanations.size() < kEventsMax) into.explanations.push_back(std::move(*explanation));
      continue;
    }
    into.events.push_back(
        {static_cast<std::int64_t>(note.time_ns), std::string(note.text.substr(0, 400)), index});
  }
}

// Returns the reason why the file ended early. Empty if it did not.
std::string read_file(const CaptureInput& input, std::uint16_t index, std::uint64_t packets_max,
                      FlowNumbers& flows, Sightings& into) {
  CaptureFileNote& note = into.files[index];
  auto reader = wire::PcapReader::open(input.octets);
  if (!reader) return std::string(wire::describe(reader.error().fault));
  // Reserve the maximum: untouched memory costs nothing, but moving a million elements does.
  into.list.reserve(into.list.size() +
                    std::min<std::uint64_t>(packets_max, input.octets.size() / kPacketOctetsMin));
  while (!interrupted()) {
    auto next = reader->next();
    note.left_out = reader->left_out();
    take_events(*reader, index, into);
    if (!next) return formatted("{} (at byte {})", wire::describe(next.error().fault), next.error().offset);
    if (!*next) break;
    const wire::CapturedPacket& captured = **next;
    ++note.packets;
    const wire::Dissection packet = wire::dissect(captured);
    if (!packet.is_roce()) {
      ++note.foreign;
      continue;
    }
    if (into.list.size() == packets_max) {
      into.truncated = true;
      break;
    }
    into.connections.learn(packet);
    const auto at = static_cast<std::uint32_t>(into.list.size());
    Sighting& seen = into.list.emplace_back(sighting_of(packet, captured, flows));
    seen.number = static_cast<std::uint32_t>(note.packets);
    seen.where.file = index;
    // The name of the program is no remark on the packet.
    if (auto owner = seen.remarked ? owner_in(captured.comments.front()) : std::nullopt) {
      seen.remarked = false;
      if (packet.frame)
        into.owners.insert_or_assign({ends_of(*packet.frame).destination, owner->first}, owner->second);
    }
    if (packet.cm) {
      const CmIds ids = ids_of(packet.cm->message);
      into.cm_notes.push_back({at, ids.local, ids.remote, ids.qpn, ids.reason});
    }
    if (seen.remarked && into.remarks.size() < kRemarksMax)
      into.remarks[at] = std::string(captured.comments.front().substr(0, 200));
  }
  return "";
}

// Whether a comment says that the packet was dropped: "fault: drop, ecn (rule 2)" from a program, or the
// simulator's comment.
bool is_loss(std::string_view remark) {
  constexpr std::string_view kFault = "fault: ";
  if (remark.starts_with(kFault))
    return remark.find("drop") != std::string_view::npos || remark.find("block") != std::string_view::npos;
  constexpr std::string_view kOthers[] = {"duplicated", "reordered", "corrupted", "delayed", "ecn_marked"};
  return std::find(std::begin(kOthers), std::end(kOthers), remark) == std::end(kOthers);
}

// Matches the departure and the arrival of each packet.
class Merger {
 public:
  explicit Merger(Sightings& sightings)
      : sightings_(sightings),
        leaves_(sightings.flows.size()),
        arrives_(sightings.flows.size()),
        arrival_(sightings.list.size(), kNoIndex),
        absorbed_(sightings.list.size()),
        lost_(sightings.list.size()) {}

  Merged merged() {
    const auto& list = sightings_.list;
    note_departures();
    for (std::uint32_t i = 0; i < list.size(); ++i) {
      const Sighting& seen = list[i];
      if (seen.flow == kNoIndex || !leaves_[seen.flow]) continue;
      // A sighting with a comment but no direction is the simulator's comment on a departure, not a separate
      // packet.
      const bool remark = seen.direction == wire::PacketDirection::kUnknown && seen.remarked;
      if (remark || seen.direction == wire::PacketDirection::kInbound) find_departure(i, remark);
      // A fault dropped the packet at its arrival.
      if (!absorbed_[i]) lost_[i] = lost_[i] || lost_at(i);
    }
    Merged merged;
    for (std::uint32_t i = 0; i < list.size(); ++i) {
      if (absorbed_[i]) continue;
      merged.packets.push_back(i);
      merged.arrival_of.push_back(arrival_[i]);
      merged.lost.push_back(lost_[i] || (arrival_[i] == kNoIndex && arrival_would_be_seen(list[i])));
    }
    return merged;
  }

 private:
  // Bounds the search among identical packets in hostile files.
  static constexpr std::size_t kAlikeMax = 256;

  void note_departures() {
    for (std::uint32_t i = 0; i < sightings_.list.size(); ++i) {
      const Sighting& seen = sightings_.list[i];
      if (seen.flow == kNoIndex) continue;
      if (seen.direction == wire::PacketDirection::kInbound) arrives_[seen.flow] = true;
      if (seen.direction != wire::PacketDirection::kOutbound) continue;
      leaves_[seen.flow] = true;
      lost_[i] = lost_at(i);
      if (lost_[i]) continue;  // a lost packet has no arrival
      auto& alike = waiting_[identity_of(seen)];
      if (alike.size() < kAlikeMax) alike.push_back(i);
    }
  }

  // Chooses the latest departure before the arrival; earlier identical packets were lost. A departure after
  // the arrival, within the slack, is chosen only if there is none before.
  void find_departure(std::uint32_t at, bool remark) {
    const auto& list = sightings_.list;
    const auto found = waiting_.find(identity_of(list[at]));
    if (found == waiting_.end()) return;
    auto& alike = found->second;
    const auto first_after = [&](std::int64_t time_ns) {
      return std::find_if(alike.begin(), alike.end(),
                          [&](std::uint32_t departure) { return list[departure].time_ns > time_ns; });
    };
    if (first_after(list[at].time_ns + kStampSlackNs) == alike.begin()) return;
    const auto after = first_after(list[at].time_ns);
    const auto chosen = after == alike.begin() ? alike.begin() : after - 1;
    if (remark) {
      lost_[*chosen] = is_loss(sightings_.remarks[at]);
      sightings_.remarks[*chosen] = sightings_.remarks[at];
      sightings_.list[*chosen].remarked = true;
    } else {
      arrival_[*chosen] = at;
      if (list[at].remarked) blame(*chosen, at);
      alike.erase(chosen);
    }
    absorbed_[at] = true;
  }

  // Reports a fault at the arrival with the departure.
  void blame(std::uint32_t departure, std::uint32_t arrival) {
    lost_[departure] = lost_at(arrival);
    sightings_.remarks[departure] = sightings_.remarks[arrival];
    sightings_.list[departure].remarked = true;
  }

  [[nodiscard]] bool lost_at(std::uint32_t at) const {
    const auto remark = sightings_.remarks.find(at);
    return sightings_.list[at].direction != wire::PacketDirection::kUnknown &&
           remark != sightings_.remarks.end() && is_loss(remark->second);
  }

  [[nodiscard]] bool arrival_would_be_seen(const Sighting& seen) const {
    return seen.flow != kNoIndex && seen.direction == wire::PacketDirection::kOutbound && arrives_[seen.flow];
  }

  Sightings& sightings_;
  std::unordered_map<PacketIdentity, std::vector<std::uint32_t>, PacketIdentityHash>
      waiting_;                         // departures, oldest first
  std::vector<bool> leaves_, arrives_;  // for each flow: departures or arrivals were seen
  std::vector<std::uint32_t> arrival_;
  std::vector<bool> absorbed_, lost_;
};

}  // namespace

Sightings read_sightings(std::span<const CaptureInput> inputs, std::uint64_t packets_max) {
  Sightings sightings;
  FlowNumbers flows(sightings.flows);
  for (const CaptureInput& input : inputs) sightings.files.push_back({.name = input.name});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    sightings.files[i].fault =
        read_file(inputs[i], static_cast<std::uint16_t>(i), packets_max, flows, sightings);
  sightings.connections.settle();
  align_clocks(sightings);
  sort_by_time(sightings);
  std::stable_sort(sightings.events.begin(), sightings.events.end(),
                   [](const CaptureEvent& a, const CaptureEvent& b) { return a.time_ns < b.time_ns; });
  return sightings;
}

Merged merge_sightings(Sightings& sightings) { return Merger(sightings).merged(); }

}  // namespace rrdma::tools
