// For tests of links: frames to send, a receiver that stores arriving packets, and a link that stores sent
// frames and can be decorated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "link/link.h"
#include "wire/transport_packet.h"

namespace rrdma::link::test {

struct Arrived {
  wire::TransportHeaders headers;
  std::vector<std::uint8_t> payload;
  objects::PacketOrigin origin;
  std::vector<std::uint8_t> grh;
};

class Collector final : public Receiver {
 public:
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
    Arrived arrived{packet.headers, {packet.payload.begin(), packet.payload.end()}, origin, {}};
    if (origin.grh != nullptr) arrived.grh.assign(origin.grh, origin.grh + 40);
    packets.push_back(std::move(arrived));
  }
  std::vector<Arrived> packets;
};

struct Message {
  wire::Step step = wire::Step::kSendOnly;
  std::uint32_t psn = 0;
  std::size_t octets = 0;
  std::int32_t corrupt_bit = -1;
  std::uint8_t faults = 0;
  bool staged = false;
};

// Fills one frame with bytes of `memory` and commits it. False if the link had no frame.
inline bool send(Link& link, const objects::Path& path, const Message& message, const std::uint8_t* memory) {
  objects::Frame* frame = link.reserve(path);
  if (frame == nullptr) return false;
  wire::TransportHeaders headers;
  headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, message.step);
  headers.bth.destination = wire::Qpn(0x010042);
  headers.bth.psn = wire::Psn(message.psn);
  headers.bth.pad = wire::pad_for(message.octets);
  headers.reth = {.address = 0x1000, .rkey = {7}, .length = 99};
  frame->header_octets =
      static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
  frame->pad = headers.bth.pad;
  frame->corrupt_bit = message.corrupt_bit;
  frame->faults = message.faults;
  frame->staged = message.staged;
  if (message.octets != 0) frame->add_span(memory, message.octets);
  link.commit(*frame);
  return true;
}

inline std::vector<std::uint8_t> random_octets(std::size_t count, std::uint64_t seed = 1) {
  Prng prng(seed);
  std::vector<std::uint8_t> octets(count);
  for (auto& octet : octets) octet = static_cast<std::uint8_t>(prng.next());
  return octets;
}

struct Sent {
  std::uint32_t psn = 0;
  std::vector<std::uint8_t> payload;
  std::int32_t corrupt_bit = -1;
  std::uint8_t traffic_class = 0;
  Instant when;
  friend bool operator==(const Sent&, const Sent&) = default;
};

class RecordingLink final : public Link {
 public:
  explicit RecordingLink(std::size_t frames = 64) : frames_(frames) {}

  objects::Frame* reserve(const objects::Path& path) override {
    if (count_ == frames_.size() || room == 0) return nullptr;
    frames_[count_].clear();
    frames_[count_].path = &path;
    return &frames_[count_];
  }
  void commit(objects::Frame&) override {
    ++count_;
    --room;
  }
  void flush(Instant now) override {
    for (std::size_t i = 0; i < count_; ++i) {
      const objects::Frame& frame = frames_[i];
      Sent record{wire::parse_bth(frame.header.data()).psn.value,
                  {},
                  frame.corrupt_bit,
                  frame.path->traffic_class,
                  now};
      for (std::size_t s = 0; s < frame.span_count; ++s) {
        record.payload.insert(record.payload.end(), frame.spans[s].data,
                              frame.spans[s].data + frame.spans[s].length);
      }
      sent.push_back(std::move(record));
    }
    count_ = 0;
  }
  std::size_t poll(Receiver& receiver, Instant, std::size_t) override {
    for (const auto& [packet, origin] : arriving) receiver.on_packet(packet, origin);
    const std::size_t count = arriving.size();
    arriving.clear();
    return count;
  }
  [[nodiscard]] std::span<const LinkCounter> counters() override { return {}; }

  std::vector<Sent> sent;
  std::vector<std::pair<wire::TransportPacket, objects::PacketOrigin>> arriving;
  std::size_t room = std::size_t{1} << 40;  // frames that it still takes

 private:
  std::vector<objects::Frame> frames_;
  std::size_t count_ = 0;
};

}  // namespace rrdma::link::test
