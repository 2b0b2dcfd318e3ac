#include "model_link.h"

#include <utility>

#include "wire/headers.h"
#include "wire/transport_packet.h"

namespace rrdma::endings {
namespace {

std::vector<std::uint8_t> ack_of(const objects::Frame& frame) {
  wire::TransportHeaders headers;
  headers.bth = {.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kAcknowledge),
                 .pkey = wire::kDefaultPKey,
                 .destination = wire::parse_bth(frame.header.data()).destination,
                 .psn = frame.ack.psn};
  headers.aeth = frame.ack.aeth;
  std::vector<std::uint8_t> octets(wire::kHeaderOctetsMax);
  octets.resize(wire::emit_transport_headers(headers, octets.data()));
  return octets;
}

std::vector<std::uint8_t> packet_of(const objects::Frame& frame) {
  std::vector<std::uint8_t> octets(frame.header.begin(), frame.header.begin() + frame.header_octets);
  for (std::size_t i = 0; i < frame.span_count; ++i)
    octets.insert(octets.end(), frame.spans[i].data, frame.spans[i].data + frame.spans[i].length);
  octets.resize(octets.size() + frame.pad);
  return octets;
}

}  // namespace

objects::Frame* WireEnd::reserve(const objects::Path& path) {
  frame_.clear();
  frame_.path = &path;
  return &frame_;
}

void WireEnd::commit(objects::Frame& frame) {
  step_();
  Packets record;
  if (frame.ack.present) record.push_back(ack_of(frame));
  record.push_back(packet_of(frame));
  if (wire_.ring) return show(record);
  for (auto& packet : record) unflushed_.push_back(std::move(packet));
}

void WireEnd::flush(Instant) {
  Packets burst = std::exchange(unflushed_, {});
  for (auto& packet : burst) {
    Packets one{std::move(packet)};
    show(one);
  }
}

void WireEnd::show(Packets& packets) {
  if (dead_) return;
  for (auto& packet : packets) {
    wire_.to[1 - own_].push_back(std::move(packet));
    ++sent_;
  }
  step_();
}

std::size_t WireEnd::poll(link::Receiver& receiver, Instant, std::size_t burst_max) {
  std::size_t done = 0;
  for (; done < burst_max && !dead_ && !wire_.to[own_].empty(); ++done) {
    const std::vector<std::uint8_t> octets = std::move(wire_.to[own_].front());
    wire_.to[own_].pop_front();
    step_();
    wire::TransportPacket packet;
    if (wire::parse_transport(octets, packet) != wire::TransportError::kNone) continue;
    objects::PacketOrigin origin;
    origin.source.octets[15] = static_cast<std::uint8_t>(2 - own_);
    origin.destination.octets[15] = static_cast<std::uint8_t>(own_ + 1);
    receiver.on_packet(packet, origin);
    if (!dead_) ++handled_;
    step_();
  }
  return done;
}

void ModelFile::write_out() {
  step_();
  const std::uint64_t collected = std::exchange(collected_, 0);
  if (dead_) return;
  packets_ += collected;
  step_();
}

}  // namespace rrdma::endings
