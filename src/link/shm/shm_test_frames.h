// Shared by the tests of the shared-memory link: numbered frames with verifiable content, a receiver that
// checks them, and a channel with both ends in one process.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "link/shm/shm_link.h"

namespace rrdma::link {

inline objects::Path test_path(std::uint32_t peer, std::uint32_t train_octets = 0) {
  objects::Path path;
  path.local = wire::gid_of_ipv4({10, 0, 0, 1});
  path.remote = wire::gid_of_ipv4({10, 0, 0, 2});
  path.peer = peer;
  path.train_octets = train_octets;
  path.lossless = true;
  return path;
}

// Content that identifies the frame and every position in it.
inline void fill_content(std::vector<std::uint8_t>& data, std::uint32_t number) {
  Prng prng(number + 1);
  std::size_t at = 0;
  for (; at + 8 <= data.size(); at += 8) store_native(data.data() + at, prng.next());
  for (; at < data.size(); ++at) data[at] = static_cast<std::uint8_t>(prng.next());
}

// Sends frame `number` with this payload, cut into spans of unequal length. False if there is no room.
inline bool send_numbered(Link& link, const objects::Path& path, std::uint32_t number,
                          const std::vector<std::uint8_t>& data) {
  objects::Frame* frame = link.reserve(path);
  if (frame == nullptr) return false;
  wire::TransportHeaders headers;
  headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnlyImmediate);
  headers.bth.pad = wire::pad_for(data.size());
  headers.bth.psn = wire::Psn(number);
  headers.immediate.raw = number;
  frame->header_octets =
      static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
  frame->pad = headers.bth.pad;
  const std::size_t cut = data.size() / 3;
  if (cut != 0) frame->add_span(data.data(), cut);
  if (data.size() != cut) frame->add_span(data.data() + cut, data.size() - cut);
  link.commit(*frame);
  return true;
}

// The length of frame `number`: mostly small, some large.
inline std::size_t numbered_length(std::uint32_t number, std::uint32_t train_octets) {
  Prng prng(number * 77 + 5);
  switch (prng.below(8)) {
    case 0: return 0;
    case 1: return prng.below(train_octets + 1);
    case 2: return train_octets;
    case 3: return prng.below(4097);
    default: return prng.below(256);
  }
}

// Expects frames 0, 1, 2, ... with their content.
struct CheckingReceiver final : Receiver {
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
    if (packet.headers.immediate.raw != next) ++wrong_order;
    data.resize(packet.payload.size());
    fill_content(data, packet.headers.immediate.raw);
    if (!std::equal(data.begin(), data.end(), packet.payload.begin())) ++wrong_content;
    last = packet.headers;
    last_origin = origin;
    if (origin.grh != nullptr) grh.assign(origin.grh, origin.grh + wire::kGrhOctets);
    next = packet.headers.immediate.raw + 1;
    ++packets;
  }
  [[nodiscard]] bool all_right() const { return wrong_order == 0 && wrong_content == 0; }
  std::uint32_t next = 0;
  std::uint64_t packets = 0;
  std::uint64_t wrong_order = 0;
  std::uint64_t wrong_content = 0;
  wire::TransportHeaders last;
  objects::PacketOrigin last_origin;
  std::vector<std::uint8_t> grh;
  std::vector<std::uint8_t> data;
};

inline std::uint64_t counter(Link& link, std::string_view name) {
  for (const LinkCounter& entry : link.counters()) {
    if (entry.name == name) return entry.value;
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

// Two links in one process, connected by a channel, and the channel's memory as a hostile peer would map it.
struct JoinedLinks {
  explicit JoinedLinks(std::uint32_t ring_octets = kRingOctetsMin) {
    auto pair = ShmChannel::create(ring_octets).value();
    octets = channel_octets(ring_octets);
    memory = static_cast<std::uint8_t*>(
        ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED, pair.peer_memory.get(), 0));
    a = ShmLink::create().value();
    b = ShmLink::create().value();
    a_to_b = a->add_channel(std::move(pair.own)).value();
    b_to_a =
        b->add_channel(ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell)).value())
            .value();
  }
  ~JoinedLinks() { ::munmap(memory, octets); }
  DirectionControl& control(unsigned direction) {
    return reinterpret_cast<DirectionControl*>(memory + controls_offset())[direction];
  }
  std::unique_ptr<ShmLink> a;
  std::unique_ptr<ShmLink> b;
  std::uint32_t a_to_b = 0;
  std::uint32_t b_to_a = 0;
  std::uint8_t* memory = nullptr;
  std::size_t octets = 0;
};

}  // namespace rrdma::link
