#include "inspect/perfetto.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "wire/address_text.h"

namespace rrdma::tools {
namespace {

// A protobuf message under construction. Fields are written in the order of the calls.
class Message {
 public:
  Message& number(unsigned field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& fixed64(unsigned field, std::uint64_t value) {
    varint(field << 3 | 1);
    for (unsigned shift = 0; shift < 64; shift += 8) octets_ += static_cast<char>(value >> shift & 0xff);
    return *this;
  }
  Message& text(unsigned field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    octets_ += value;
    return *this;
  }
  Message& message(unsigned field, const Message& inner) { return text(field, inner.octets_); }
  [[nodiscard]] const std::string& octets() const { return octets_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) octets_ += static_cast<char>(value | 0x80);
    octets_ += static_cast<char>(value);
  }
  std::string octets_;
};

// Field numbers of Perfetto's schema.
namespace trace {
constexpr unsigned kPacket = 1;
}
namespace packet {
constexpr unsigned kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kTrackDescriptor = 60;
}
namespace track {
constexpr unsigned kUuid = 1, kName = 2, kProcess = 3, kParent = 5;
constexpr unsigned kPid = 1, kProcessName = 6;  // of the process in it
}  // namespace track
namespace track_event {
constexpr unsigned kAnnotation = 4, kType = 9, kTrack = 11, kCategory = 22, kName = 23, kFlow = 47,
                   kFlowEnd = 48;
constexpr std::uint64_t kBegin = 1, kEnd = 2, kInstant = 3;
}  // namespace track_event
namespace annotation {
constexpr unsigned kUnsigned = 3, kText = 6, kName = 10;
}

constexpr std::uint64_t kSequenceId = 1;

struct Slice {
  double begin, end;
  std::string name;
  std::uint64_t track;
  std::uint32_t first, last;  // packets
};

class TraceWriter {
 public:
  explicit TraceWriter(const Analysis& analysis) : analysis_(analysis), columns_(analysis.columns) {}

  std::string write() {
    add_tracks();
    for (std::uint32_t i = 0; i < columns_.size(); ++i) {
      if (columns_.connection[i] == kNoIndex) continue;
      add_packet(i);
      follow_message(i);
    }
    add_slices();
    add_faults();
    // Sort by time: readers may sort, but need not.
    std::stable_sort(events_.begin(), events_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [time, event] : events_) {
      Message trace_packet;
      trace_packet
          .number(packet::kTimestamp,
                  static_cast<std::uint64_t>(analysis_.first_ns + static_cast<std::int64_t>(time)))
          .number(packet::kSequence, kSequenceId)
          .text(packet::kTrackEvent, event);
      trace_.message(trace::kPacket, trace_packet);
    }
    return trace_.octets();
  }

 private:
  // 0 is not a valid track.
  std::uint64_t new_uuid() { return ++last_uuid_; }

  void describe(const Message& descriptor) {
    Message trace_packet;
    trace_packet.number(packet::kSequence, kSequenceId).message(packet::kTrackDescriptor, descriptor);
    trace_.message(trace::kPacket, trace_packet);
  }

  std::uint64_t child_track(std::uint64_t parent, std::string_view name) {
    const std::uint64_t uuid = new_uuid();
    Message descriptor;
    descriptor.number(track::kUuid, uuid).text(track::kName, name).number(track::kParent, parent);
    describe(descriptor);
    return uuid;
  }

  std::uint64_t host_track(const wire::Gid& address) {
    const auto found = hosts_.find(address);
    if (found != hosts_.end()) return found->second;
    const std::uint64_t uuid = new_uuid();
    Message process, descriptor;
    process.number(track::kPid, hosts_.size() + 1).text(track::kProcessName, wire::to_text(address));
    descriptor.number(track::kUuid, uuid)
        .text(track::kName, wire::to_text(address))
        .message(track::kProcess, process);
    describe(descriptor);
    return hosts_[address] = uuid;
  }

  void add_tracks() {
    for (const Connection& connection : analysis_.connections) {
      auto& ends = tracks_.emplace_back();
      for (std::size_t side = 0; side < 2; ++side) {
        const ConnectionEnd& end = connection.ends[side];
        ends[side].queue_pair = child_track(
            host_track(end.address),
            end.qpn == kNoIndex
                ? "QP ?"
                : formatted("{} QP 0x{:06x}", wire::transport_name(connection.transport), end.qpn));
      }
    }
  }

  static Message annotated(std::string_view name, std::uint64_t value) {
    return Message().text(annotation::kName, name).number(annotation::kUnsigned, value);
  }

  Message instant(std::uint64_t on_track, std::string_view name, std::uint32_t i) const {
    Message event;
    event.number(track_event::kType, track_event::kInstant)
        .number(track_event::kTrack, on_track)
        .text(track_event::kCategory, "packet")
        .text(track_event::kName, name)
        .message(track_event::kAnnotation, annotated("psn", columns_.psn[i]))
        .message(track_event::kAnnotation, annotated("number", columns_.number[i]))
        .message(track_event::kAnnotation, annotated("octets", columns_.octets[i]));
    if ((columns_.marks[i] & kMarkRepeat) != 0)
      event.message(track_event::kAnnotation, annotated("repeat", 1));
    if ((columns_.marks[i] & kMarkLost) != 0) event.message(track_event::kAnnotation, annotated("lost", 1));
    if (const auto remark = analysis_.remarks.find(i); remark != analysis_.remarks.end())
      event.message(track_event::kAnnotation,
                    Message().text(annotation::kName, "fault").text(annotation::kText, remark->second));
    return event;
  }

  // Adds the departure and, unless the packet is lost, the arrival, connected by a flow.
  void add_packet(std::uint32_t i) {
    const unsigned marks = columns_.marks[i];
    const std::size_t sender = (marks & kMarkFromB) != 0 ? 1 : 0;
    auto& ends = tracks_[columns_.connection[i]];
    std::string name(wire::opcode_name(wire::Opcode(columns_.opcode[i])));
    if ((marks & kMarkNak) != 0) name += " (NAK)";
    if ((marks & kMarkRnrNak) != 0) name += " (RNR NAK)";
    const std::uint64_t flow = std::uint64_t{i} + 1;
    const double time = columns_.time_ns[i];
    Message sent = instant(ends[sender].queue_pair, name, i);
    if ((marks & kMarkLost) != 0) {
      events_.emplace_back(time, sent.octets());
      return;
    }
    events_.emplace_back(time, sent.fixed64(track_event::kFlow, flow).octets());
    const float travel = columns_.travel_ns[i];
    Message arrived = instant(ends[1 - sender].queue_pair, name + " arrives", i);
    events_.emplace_back(time + (std::isnan(travel) ? 0.0 : static_cast<double>(travel)),
                         arrived.fixed64(track_event::kFlowEnd, flow).octets());
  }

  // A work request ends with the response to its last packet, or with that packet if there is none.
  void follow_message(std::uint32_t i) {
    const unsigned marks = columns_.marks[i];
    const wire::OpcodeShape& shape = wire::shape_of(wire::Opcode(columns_.opcode[i]));
    if (!shape.request || columns_.cm_message[i] != 0 || (marks & (kMarkRepeat | kMarkBad)) != 0) return;
    EndTracks& end = tracks_[columns_.connection[i]][(marks & kMarkFromB) != 0 ? 1 : 0];
    if (shape.starts_message || end.first == kNoIndex) end.first = i;
    if (!shape.ends_message) return;
    const std::uint32_t answer = columns_.partner[i];
    const double finish = columns_.time_ns[answer == kNoIndex ? i : answer];
    slices_.push_back({columns_.time_ns[end.first], std::max(finish, columns_.time_ns[i]),
                       std::string(kind_name(shape.kind)),
                       lane_for(end, columns_.time_ns[end.first], std::max(finish, columns_.time_ns[i])),
                       end.first, i});
    end.first = kNoIndex;
  }

  static std::string_view kind_name(wire::Kind kind) {
    switch (kind) {
      case wire::Kind::kSend: return "SEND";
      case wire::Kind::kWrite: return "RDMA WRITE";
      case wire::Kind::kReadRequest: return "RDMA READ";
      case wire::Kind::kAtomic: return "ATOMIC";
      case wire::Kind::kFlush: return "FLUSH";
      case wire::Kind::kAtomicWrite: return "ATOMIC WRITE";
      default: return "request";
    }
  }

  struct Lane {
    std::uint64_t track;
    double busy_until;
  };
  struct EndTracks {
    std::uint64_t queue_pair = 0;
    std::vector<Lane> lanes;
    std::uint32_t first = kNoIndex;  // first packet of the current message
  };

  // Finds a track without an overlapping slice.
  std::uint64_t lane_for(EndTracks& end, double begin, double finish) {
    for (Lane& lane : end.lanes) {
      if (lane.busy_until > begin) continue;
      lane.busy_until = finish;
      return lane.track;
    }
    end.lanes.push_back({child_track(end.queue_pair, "work requests"), finish});
    return end.lanes.back().track;
  }

  void add_slices() {
    for (const Slice& slice : slices_) {
      Message begin, end;
      begin.number(track_event::kType, track_event::kBegin)
          .number(track_event::kTrack, slice.track)
          .text(track_event::kCategory, "work request")
          .text(track_event::kName, slice.name)
          .message(track_event::kAnnotation, annotated("first_psn", columns_.psn[slice.first]))
          .message(track_event::kAnnotation, annotated("last_psn", columns_.psn[slice.last]));
      end.number(track_event::kType, track_event::kEnd).number(track_event::kTrack, slice.track);
      events_.emplace_back(slice.begin, begin.octets());
      events_.emplace_back(slice.end, end.octets());
    }
  }

  // Adds injected faults that are not packets, on a separate track.
  void add_faults() {
    if (analysis_.events.empty()) return;
    const std::uint64_t uuid = new_uuid();
    describe(Message().number(track::kUuid, uuid).text(track::kName, "faults on purpose"));
    for (const CaptureEvent& event : analysis_.events) {
      Message injected;
      injected.number(track_event::kType, track_event::kInstant)
          .number(track_event::kTrack, uuid)
          .text(track_event::kCategory, "fault")
          .text(track_event::kName, event.text);
      events_.emplace_back(static_cast<double>(event.time_ns - analysis_.first_ns), injected.octets());
    }
  }

  const Analysis& analysis_;
  const PacketColumns& columns_;
  Message trace_;
  std::uint64_t last_uuid_ = 0;
  std::map<wire::Gid, std::uint64_t> hosts_;
  std::vector<std::array<EndTracks, 2>> tracks_;  // of each connection
  std::vector<Slice> slices_;
  std::vector<std::pair<double, std::string>> events_;
};

}  // namespace

std::string perfetto_trace(const Analysis& analysis) { return TraceWriter(analysis).write(); }

}  // namespace rrdma::tools
