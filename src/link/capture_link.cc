#include "link/capture_link.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/guarded_copy.h"
#include "wire/headers.h"
#include "wire/source_port.h"

namespace rrdma::link {

using objects::Frame;

namespace {

// A locally administered address that contains the GID's host part.
wire::MacAddress mac_of(const wire::Gid& gid) {
  return {{0x02, 0x00, gid.octets[12], gid.octets[13], gid.octets[14], gid.octets[15]}};
}

std::string fault_text(std::uint8_t kinds, std::uint32_t rule) {
  constexpr std::pair<std::uint8_t, std::string_view> kNames[] = {
      {objects::kFaultDrop, "drop"},       {objects::kFaultDuplicate, "duplicate"},
      {objects::kFaultReorder, "reorder"}, {objects::kFaultCorrupt, "corrupt"},
      {objects::kFaultEcn, "ecn"},         {objects::kFaultDelay, "delay"},
      {objects::kFaultBlock, "block"}};
  std::string text;
  for (const auto& [kind, name] : kNames) {
    if ((kinds & kind) == 0) continue;
    text += text.empty() ? "fault: " : ", ";
    text += name;
  }
  return rule == 0 ? text : text + " (rule " + std::to_string(rule) + ")";
}

}  // namespace

CaptureLink::CaptureLink(Link& inner, CaptureSink& sink, const CaptureConfig& config)
    : inner_(inner),
      sink_(sink),
      epoch_offset_ns_(config.epoch_offset_ns),
      write_through_(config.write_through),
      owner_(config.owner),
      clock_(config.clock),
      methods_(config.methods),
      writer_([this](Octets block) { sink_.append(block); }, config.application),
      interface_(writer_.add_interface(
          wire::LinkType::kEthernet, config.interface_name,
          config.snap_octets == 0 ? wire::PcapngWriter::kPacketOctetsMax
                                  : std::min(config.snap_octets, wire::PcapngWriter::kPacketOctetsMax))),
      pending_octets_(kPendingMax * kPacketOctetsMax) {}

CaptureLink::~CaptureLink() {
  write_pending(now_);
  sink_.write_out();
  // The sink's losses concern all links that share it: the last link that goes reports them.
  writer_.write_statistics(interface_, static_cast<std::uint64_t>(now_.ns + epoch_offset_ns_),
                           captured_ + skipped_, skipped_ + sink_.take_lost());
  sink_.write_out();
}

void CaptureLink::commit(Frame& frame) {
  record(frame);
  if (goes_through(wire::parse_bth(frame.header.data()).opcode)) {
    write_pending(now_);
    write_out();
  }
  inner_.commit(frame);
}

void CaptureLink::lose(Frame& frame) {
  record(frame);
  inner_.lose(frame);
}

void CaptureLink::note_faults(std::uint32_t rule, std::uint8_t faults) {
  received_.faults = {faults, rule};
  inner_.note_faults(rule, faults);
}

void CaptureLink::record(const Frame& frame) {
  if (pending_count_ == kPendingMax) write_pending(now_);
  bool readable = frame.payload_octets <= kPayloadOctetsMax;
  std::size_t octets = frame.header_octets;
  std::memcpy(transport_.data(), frame.header.data(), octets);
  for (std::size_t i = 0; readable && i < frame.span_count; ++i) {
    const objects::PayloadSpan& span = frame.spans[i];
    readable = span.length == 0 || guarded_copy(transport_.data() + octets, span.data, span.length);
    octets += span.length;
  }
  if (readable) {
    std::memset(transport_.data() + octets, 0, frame.pad);
    octets += frame.pad;
    const objects::Path& path = *frame.path;
    const Ends ends{path.local, path.remote, path.source_port, path.traffic_class, path.hop_limit};
    const MutableOctets place =
        MutableOctets(pending_octets_).subspan(pending_count_ * kPacketOctetsMax, kPacketOctetsMax);
    const std::size_t packet_octets = emit_packet(ends, Octets(transport_).first(octets), place);
    if (frame.corrupt_bit >= 0) {
      // Numbered like the link below does: from the BTH to the end of the ICRC.
      const std::size_t covered = octets + wire::kIcrcOctets;
      const std::size_t bit = static_cast<std::size_t>(frame.corrupt_bit) % (covered * 8);
      std::uint8_t& octet = place[packet_octets - covered + bit / 8];
      octet = static_cast<std::uint8_t>(octet ^ 0x80u >> bit % 8);
    }
    pending_[pending_count_++] = {packet_octets, {frame.faults, frame.fault_rule}, {}, 0, frame.staged};
  } else {
    ++skipped_;
  }
}

void CaptureLink::flush(Instant now) {
  now_ = now;
  write_pending(now);
  inner_.flush(now);
  write_out_when_due(now);
}

std::size_t CaptureLink::poll(Receiver& receiver, Instant now, std::size_t burst_max) {
  now_ = now;
  receiver_ = &receiver;
  const std::size_t count = inner_.poll(*this, now, burst_max);
  receiver_ = nullptr;
  write_out_when_due(now);
  return count;
}

void CaptureLink::on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  if (packet.payload.size() <= kPayloadOctetsMax) {
    wire::TransportHeaders headers = packet.headers;
    std::size_t octets = wire::emit_transport_headers(headers, transport_.data());
    std::copy(packet.payload.begin(), packet.payload.end(),
              transport_.begin() + static_cast<std::ptrdiff_t>(octets));
    octets += packet.payload.size();
    std::memset(transport_.data() + octets, 0, headers.bth.pad);
    octets += headers.bth.pad;
    const Ends ends{origin.source, origin.destination, origin.source_port, origin.traffic_class};
    const std::uint32_t qpn = headers.bth.destination.value;
    received_ = {emit_packet(ends, Octets(transport_).first(octets), packet_),
                 {},
                 stamp(),
                 is_first_for(qpn) ? qpn : 0};
  } else {
    ++skipped_;
  }
  if (!faults_expected_ && goes_through(packet.headers.bth.opcode)) {
    write_received();
    write_out();
  }
  receiver_->on_packet(packet, origin);
  write_received();
}

bool CaptureLink::is_first_for(std::uint32_t qpn) {
  return !owner_.empty() && named_.size() < kNamedMax && named_.insert(qpn).second;
}

void CaptureLink::write_received() {
  if (received_.octets == 0) return;
  write(Octets(packet_).first(received_.octets), received_.when, wire::PacketDirection::kInbound,
        received_.faults, received_.qpn);
  received_ = {};
}

std::size_t CaptureLink::emit_packet(const Ends& ends, Octets transport, MutableOctets to) const {
  wire::RoceFrame frame;
  wire::EthernetHeader ethernet{.destination = mac_of(ends.destination), .source = mac_of(ends.source)};
  const std::uint8_t hop_limit = ends.hop_limit == 0 ? std::uint8_t{64} : ends.hop_limit;
  if (ends.source.is_ipv4()) {
    ethernet.ether_type = wire::kEtherTypeIpv4;
    wire::Ipv4Header ip;
    ip.tos = ends.traffic_class;
    ip.ttl = hop_limit;
    ip.source = {ends.source.ipv4()};
    ip.destination = {ends.destination.ipv4()};
    frame.network = ip;
  } else {
    ethernet.ether_type = wire::kEtherTypeIpv6;
    wire::Ipv6Header ip;
    ip.traffic_class = ends.traffic_class;
    ip.hop_limit = hop_limit;
    ip.source = {ends.source.octets};
    ip.destination = {ends.destination.octets};
    frame.network = ip;
  }
  frame.ethernet = ethernet;
  frame.udp.source = ends.source_port == 0 ? wire::kSourcePortMin : ends.source_port;
  frame.transport = transport;
  return wire::emit_frame(frame, to);
}

void CaptureLink::write(Octets packet, Instant when, wire::PacketDirection direction, const Faults& faults,
                        std::uint32_t first_for, bool staged) {
  std::string comment = faults.kinds == 0 ? std::string() : fault_text(faults.kinds, faults.rule);
  // A packet has one comment: the next packet names the program.
  if (first_for != 0 && !comment.empty()) named_.erase(first_for);
  if (first_for != 0 && comment.empty())
    comment = formatted("{}{:06x} belongs to {}", wire::kOwnerComment, first_for, owner_);
  if (staged && comment.empty()) comment = wire::kDeviceMemoryComment;
  if (methods_ != nullptr) write_methods(when);
  writer_.write({.interface = interface_,
                 .time_ns = static_cast<std::uint64_t>(when.ns + epoch_offset_ns_),
                 .pieces = std::span(&packet, 1),
                 .comment = comment,
                 .direction = direction});
  if (!dirty_) last_write_out_ = when;
  dirty_ = true;
  ++captured_;
}

void CaptureLink::write_methods(Instant when) {
  const auto time_ns = static_cast<std::uint64_t>(when.ns + epoch_offset_ns_);
  for (; const std::string* path = methods_->at(methods_written_); ++methods_written_)
    writer_.write_note(time_ns, std::string(wire::kMethodNote) + *path, {});
}

void CaptureLink::note(Instant now, std::string_view text, std::string_view facts) {
  write_pending(now);
  writer_.write_note(static_cast<std::uint64_t>(now.ns + epoch_offset_ns_), text, facts);
  sink_.write_out();
}

void CaptureLink::record_foreign(const ForeignPacket& packet) {
  std::array<std::uint8_t, kPacketOctetsMax> place;
  if (packet.transport.size() > kPayloadOctetsMax) return;
  const std::size_t octets =
      emit_packet({packet.source, packet.destination, packet.source_port, 0}, packet.transport, place);
  write(Octets(place).first(octets), packet.when, packet.direction, {});
}

Instant CaptureLink::stamp() {
  if (clock_ != nullptr) now_ = std::max(now_, clock_());
  return now_;
}

void CaptureLink::write_pending(Instant now) {
  write_received();
  for (std::size_t i = 0; i < pending_count_; ++i) {
    const Octets packet = Octets(pending_octets_).subspan(i * kPacketOctetsMax, pending_[i].octets);
    write(packet, clock_ != nullptr ? stamp() : now, wire::PacketDirection::kOutbound, pending_[i].faults, 0,
          pending_[i].staged);
  }
  pending_count_ = 0;
}

void CaptureLink::write_out_when_due(Instant now) {
  if (dirty_ && now - last_write_out_ >= kWriteOut) write_out();
}

void CaptureLink::write_out() {
  sink_.write_out();
  dirty_ = false;
}

Instant CaptureLink::next_deadline() const {
  return std::min(inner_.next_deadline(), dirty_ ? last_write_out_ + kWriteOut : kNever);
}

std::span<const LinkCounter> CaptureLink::counters() {
  published_.clear();
  published_.push_back({"captured", captured_});
  published_.push_back({"capture_skipped", skipped_});
  const auto inner = inner_.counters();
  published_.insert(published_.end(), inner.begin(), inner.end());
  return published_;
}

}  // namespace rrdma::link
