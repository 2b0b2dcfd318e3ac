// EnginePair: two engines back to back in memory, with any number of connected RC QPs between them. A frame
// that one engine commits is parsed and handled by the other immediately.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "objects/completion_queue.h"
#include "objects/frame.h"
#include "objects/memory.h"
#include "transport/engine.h"
#include "wire/transport_packet.h"

namespace rrdma::bench {

class EnginePair final : private transport::EventSink {
 public:
  static constexpr std::uint32_t kDepth = 32;
  static constexpr std::uint32_t kMessageOctets = 64;

  explicit EnginePair(std::uint32_t qps, std::uint32_t mtu_code = 5) : a_(*this, 1), b_(*this, 2) {
    a_.wire.to = &b_;
    b_.wire.to = &a_;
    for (std::uint32_t i = 0; i < qps; ++i) {
      const wire::Qpn qpn(0x100 + i);
      connect(a_, qpn, mtu_code);
      connect(b_, qpn, mtu_code);
      for (std::uint32_t k = 0; k < kDepth; ++k) post_receive(i);
    }
  }

  // Sends `messages` messages of 64 bytes on one QP and waits for the completions on both sides.
  void burst(std::uint32_t qp, std::uint32_t messages) {
    transport::SendRequest request;
    request.entry.opcode = objects::SendOpcode::kSend;
    const objects::Sge sge{kAddress, kMessageOctets, wire::LKey{a_.region->key}};
    request.list = {&sge, 1};
    for (std::uint32_t i = 0; i < messages; ++i) {
      RRDMA_ASSERT(a_.engine->post_send(*a_.qps[qp], request, now_) == transport::PostError::kNone);
    }
    settle(qp, messages);
  }
  // Sends one message on each of `count` QPs, from `first` on. REQUIRES: count <= kDepth.
  void spread(std::uint32_t first, std::uint32_t count) {
    transport::SendRequest request;
    request.entry.opcode = objects::SendOpcode::kSend;
    const objects::Sge sge{kAddress, kMessageOctets, wire::LKey{a_.region->key}};
    request.list = {&sge, 1};
    for (std::uint32_t i = 0; i < count; ++i) {
      RRDMA_ASSERT(a_.engine->post_send(*a_.qps[(first + i) % a_.qps.size()], request, now_) ==
                   transport::PostError::kNone);
    }
    run();
    poll(a_, count);
    poll(b_, count);
    for (std::uint32_t i = 0; i < count; ++i)
      post_receive(static_cast<std::uint32_t>((first + i) % a_.qps.size()));
  }

  [[nodiscard]] transport::Engine& first() { return *a_.engine; }

 private:
  static constexpr std::uint64_t kAddress = 0x10000;
  static constexpr std::size_t kMemoryOctets = 4096;

  struct End;
  class Wire final : public objects::FrameSink {
   public:
    explicit Wire(EnginePair& pair) : pair_(pair) {}
    objects::Frame* reserve(const objects::Path&) override { return &frame_; }
    void commit(objects::Frame& frame) override {
      wire::TransportPacket packet;
      RRDMA_ASSERT(wire::parse_transport_headers({frame.header.data(), frame.header_octets},
                                                 packet.headers) == wire::TransportError::kNone);
      RRDMA_ASSERT(frame.span_count <= 1);
      if (frame.span_count == 1) packet.payload = {frame.spans[0].data, frame.spans[0].length};
      to->engine->handle_packet(packet, to->origin, pair_.now_);
    }
    End* to = nullptr;

   private:
    EnginePair& pair_;
    objects::Frame frame_;
  };

  struct End {
    End(EnginePair& pair, std::uint8_t number)
        : memory(kMemoryOctets), table(number), queue(8 * kDepth, nullptr), wire(pair) {
      local = wire::gid_of_ipv4({10, 0, 0, number});
      remote = wire::gid_of_ipv4({10, 0, 0, static_cast<std::uint8_t>(3 - number)});
      origin.source = remote;
      origin.destination = local;
      region = *table.register_region({.pd = &pd,
                                       .host = memory.data(),
                                       .length = memory.size(),
                                       .address = kAddress,
                                       .access = objects::kLocalWrite});
      transport::EventSink& events = pair;
      engine = std::make_unique<transport::Engine>(transport::EngineConfig{}, table, events);
    }
    std::vector<std::uint8_t> memory;
    objects::MemoryTable table;
    objects::ProtectionDomain pd;
    objects::MemoryRegion* region = nullptr;
    objects::CompletionQueue queue;
    Wire wire;
    wire::Gid local, remote;
    objects::PacketOrigin origin;
    std::unique_ptr<transport::Engine> engine;
    std::vector<transport::QueuePair*> qps;
  };

  void connect(End& end, wire::Qpn qpn, std::uint32_t mtu_code) {
    using namespace transport;
    QpInit init;
    init.pd = &end.pd;
    init.send_cq = init.receive_cq = &end.queue;
    init.send_entries = init.receive_entries = kDepth;
    init.signal_all = true;
    QueuePair& qp = end.engine->create_qp(init, qpn);
    end.qps.push_back(&qp);
    QpAttributes attributes;
    attributes.path.local = end.local;
    attributes.path.remote = end.remote;
    attributes.path_mtu = static_cast<std::uint8_t>(mtu_code);
    attributes.destination = qpn;
    attributes.timeout = 14;
    attributes.retry_count = attributes.rnr_retry = 7;
    attributes.max_reads = attributes.max_destination_reads = 16;
    const auto go = [&](QpState state, std::uint32_t mask) {
      attributes.state = state;
      RRDMA_ASSERT(end.engine->modify_qp(qp, attributes, kAttrState | mask, now_).ok());
    };
    go(QpState::kInit, kAttrPKeyIndex | kAttrPort | kAttrAccessFlags);
    go(QpState::kReadyToReceive, kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn |
                                     kAttrMaxDestinationReads | kAttrMinRnrTimer);
    go(QpState::kReadyToSend, kAttrSendPsn | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads);
  }

  void post_receive(std::uint32_t qp) {
    const objects::Sge sge{kAddress, kMessageOctets, wire::LKey{b_.region->key}};
    RRDMA_ASSERT(b_.engine->post_receive(*b_.qps[qp], 0, {&sge, 1}, now_) == transport::PostError::kNone);
  }
  void run() {
    now_ = now_ + nanoseconds(1000);
    a_.engine->transmit(a_.wire, now_);
    b_.engine->transmit(b_.wire, now_);
  }
  void settle(std::uint32_t qp, std::uint32_t messages) {
    run();
    poll(a_, messages);
    poll(b_, messages);
    for (std::uint32_t i = 0; i < messages; ++i) post_receive(qp);
  }
  static void poll(End& end, std::uint32_t messages) {
    for (std::uint32_t i = 0; i < messages; ++i) {
      const objects::Completion* completion = end.queue.peek();
      RRDMA_ASSERT(completion != nullptr && completion->status == objects::Status::kSuccess);
      end.queue.pop();
    }
  }
  void on_qp_event(transport::QueuePair&, transport::QpEvent) override {}

  Instant now_;
  End a_, b_;
};

}  // namespace rrdma::bench
