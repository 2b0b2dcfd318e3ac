// EnginePair, for tests: two engines back to back. Frames of one are parsed and handed to the other, in order
// and without loss. The swarm (tests/engine/swarm) covers loss, duplication and reordering.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include <cstring>
#include <deque>
#include <vector>

#include "transport/engine.h"

namespace rrdma::transport {

using objects::Completion;
using objects::SendOpcode;
using objects::Sge;
using objects::Status;

class Wire : public objects::FrameSink {
 public:
  objects::Frame* reserve(const objects::Path&) override { return packets.size() < room ? &frame_ : nullptr; }
  void commit(objects::Frame& frame) override {
    if (frame.ack.present) {
      wire::TransportHeaders ack;
      ack.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kAcknowledge);
      ack.bth.destination = wire::parse_bth(frame.header.data()).destination;
      ack.bth.psn = frame.ack.psn;
      ack.aeth = frame.ack.aeth;
      packets.emplace_back(wire::kHeaderOctetsMax);
      packets.back().resize(wire::emit_transport_headers(ack, packets.back().data()));
      ++acks_taken_along;
    }
    std::vector<std::uint8_t> octets(frame.header.begin(), frame.header.begin() + frame.header_octets);
    for (std::size_t i = 0; i < frame.span_count; ++i) {
      octets.insert(octets.end(), frame.spans[i].data, frame.spans[i].data + frame.spans[i].length);
    }
    octets.resize(octets.size() + frame.pad);
    packets.push_back(std::move(octets));
  }
  std::deque<std::vector<std::uint8_t>> packets;
  std::size_t room = SIZE_MAX;
  int acks_taken_along = 0;

 private:
  objects::Frame frame_;
};

struct Host : EventSink {
  explicit Host(std::uint64_t seed)
      : memory(seed), engine({}, memory, *this), cq(4096, nullptr), buffer(1 << 20) {
    region = memory
                 .register_region({.pd = &pd,
                                   .host = buffer.data(),
                                   .length = buffer.size(),
                                   .address = reinterpret_cast<std::uint64_t>(buffer.data()),
                                   .access = objects::kLocalWrite | objects::kRemoteWrite |
                                             objects::kRemoteRead | objects::kRemoteAtomic |
                                             objects::kWindowBind | objects::kFlushGlobal})
                 .value();
  }
  ~Host() override {
    if (qp != nullptr) engine.destroy_qp(*qp);
  }
  void on_qp_event(QueuePair&, QpEvent event) override { events.push_back(event); }
  void on_request_failed(QueuePair&, const FailedRequest& failed) override { failures.push_back(failed); }
  Sge sge(std::size_t offset, std::uint32_t length) {
    return {reinterpret_cast<std::uint64_t>(buffer.data() + offset), length, {region->key}};
  }
  Completion poll() {
    Completion completion;
    completion.status = Status::kGeneralError;
    EXPECT_EQ(cq.poll({&completion, 1}), 1u) << "no completion";
    return completion;
  }

  objects::ProtectionDomain pd;
  objects::MemoryTable memory;
  Engine engine;
  objects::CompletionQueue cq;
  std::vector<std::uint8_t> buffer;
  objects::MemoryRegion* region = nullptr;
  QueuePair* qp = nullptr;
  std::vector<QpEvent> events;
  std::vector<FailedRequest> failures;
  Wire wire;
};

class EnginePair : public testing::Test {
 protected:
  void connect(QpType type, std::uint8_t mtu = 3, std::uint32_t train = 0, std::uint32_t first_qpn = 0x10) {
    std::uint32_t i = 0;
    for (Host* host : {&a_, &b_}) {
      QpInit init{.type = type,
                  .pd = &host->pd,
                  .send_cq = &host->cq,
                  .receive_cq = &host->cq,
                  .send_entries = 64,
                  .receive_entries = 64,
                  .send_sges = 4,
                  .receive_sges = 4,
                  .inline_octets = 256,
                  .signal_all = true};
      host->qp = &host->engine.create_qp(init, wire::Qpn(first_qpn + i++));
      QpAttributes attr;
      attr.state = QpState::kInit;
      attr.access_flags = objects::kRemoteWrite | objects::kRemoteRead | objects::kRemoteAtomic;
      attr.qkey = {0x11};
      const bool rc = type == QpType::kRc;
      ok(host->engine.modify_qp(
          *host->qp, attr,
          kAttrState | kAttrPKeyIndex | kAttrPort | (type == QpType::kUd ? kAttrQKey : kAttrAccessFlags),
          now_));
      attr.state = QpState::kReadyToReceive;
      attr.path_mtu = mtu;
      attr.path.local.octets[15] = static_cast<std::uint8_t>(i);
      attr.path.remote.octets[15] = static_cast<std::uint8_t>(3 - i);
      attr.path.train_octets = train;
      attr.path.lossless = train != 0;
      attr.destination = wire::Qpn(first_qpn + (2 - i));
      attr.receive_psn = wire::Psn(0xfffffe);
      attr.max_destination_reads = 4;
      attr.min_rnr_timer = 1;
      std::uint32_t mask = kAttrState;
      if (type != QpType::kUd) mask |= kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn;
      if (rc) mask |= kAttrMaxDestinationReads | kAttrMinRnrTimer;
      ok(host->engine.modify_qp(*host->qp, attr, mask, now_));
      attr.state = QpState::kReadyToSend;
      attr.send_psn = wire::Psn(0xfffffe);
      attr.timeout = 14;
      attr.retry_count = 7;
      attr.rnr_retry = 7;
      attr.max_reads = 4;
      mask = kAttrState | kAttrSendPsn;
      if (rc) mask |= kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads;
      ok(host->engine.modify_qp(*host->qp, attr, mask, now_));
    }
  }
  void ok(const Result<void, TransitionError>& result) {
    ASSERT_TRUE(result.ok()) << explain(result.error(), {});
  }
  void deliver(Host& from, Host& to) {
    while (!from.wire.packets.empty()) {
      const auto octets = std::move(from.wire.packets.front());
      from.wire.packets.pop_front();
      wire::TransportPacket packet;
      ASSERT_EQ(wire::parse_transport(octets, packet), wire::TransportError::kNone);
      std::uint8_t grh[40] = {};
      objects::PacketOrigin origin{
          .source = to.qp->path.remote, .destination = to.qp->path.local, .grh = grh};
      to.engine.handle_packet(packet, origin, now_);
    }
  }
  // Runs until neither engine makes progress.
  void run() {
    for (int round = 0; round < 10000; ++round) {
      for (Host* host : {&a_, &b_}) {
        host->engine.handle_timers(now_);
        host->engine.transmit(host->wire, now_);
        host->engine.flushed(now_);
      }
      if (a_.engine.has_yielded() || b_.engine.has_yielded()) continue;
      if (a_.wire.packets.empty() && b_.wire.packets.empty()) {
        const Instant next = std::min(a_.engine.next_deadline(), b_.engine.next_deadline());
        if (next == kNever || next > now_ + seconds(1)) return;
        now_ = std::max(next, now_);
        continue;
      }
      deliver(a_, b_);
      deliver(b_, a_);
      now_ = now_ + microseconds(1);
    }
    FAIL() << "does not come to rest";
  }
  PostError post(Host& host, SendOpcode opcode, std::vector<Sge> list, std::uint64_t remote_offset = 0,
                 std::uint8_t flags = 0) {
    Host& peer = &host == &a_ ? b_ : a_;
    SendRequest request;
    request.entry.wr_id = next_wr_id_++;
    request.entry.opcode = opcode;
    request.entry.flags = flags;
    request.entry.remote_address = reinterpret_cast<std::uint64_t>(peer.buffer.data()) + remote_offset;
    request.entry.rkey = {peer.region->key};
    request.list = list;
    return host.engine.post_send(*host.qp, request, now_);
  }
  void fill(Host& host, std::size_t offset, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i)
      host.buffer[offset + i] = static_cast<std::uint8_t>(i * 7 + offset + 1);
  }

  Instant now_{1'000'000};
  Host a_{1}, b_{2};
  std::uint64_t next_wr_id_ = 1;
};

}  // namespace rrdma::transport
