// Core: what the parts of an engine share. Requester, Completer, Responder, Recovery and Datagram are short-lived views on
// one QP; whose turn it is, what is in flight, which timer runs and how a request ends is decided here for all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/instant.h"
#include "base/intrusive_list.h"
#include "objects/direct_access.h"
#include "objects/frame.h"
#include "objects/memory.h"
#include "transport/qp/attributes.h"
#include "transport/qp/counters.h"
#include "transport/qp/event_sink.h"
#include "transport/qp/queue_pair.h"
#include "transport/qp/timer_queue.h"
#include "wire/transport_packet.h"

namespace rrdma::transport {

inline constexpr std::uint32_t kPacketOctetsMax = 4096;  // payload at the largest MTU

struct EngineConfig {
  // docs/adr/0015: what may be in flight from one QP, and from all QPs of a lossy link together.
  std::uint32_t window_octets_max = 512 * 1024;
  std::uint32_t flight_octets_max = 2 * 1024 * 1024;
  // A retransmission before the ack timeout, when the measured round trip says that something was lost.
  // It does not count as a retry. Not sooner than this: a peer that has no processor for some 20 ms (a busy
  // host, an emulated one) has lost nothing.
  Duration early_retransmit_min = milliseconds(30);
  // Octet for octet what the transport said before it learned to probe and to repair single packets: go back N,
  // after early_retransmit_min at the soonest.
  bool strict = false;
  // Otherwise: how long a peer may be silent before it is asked with a packet that it may have seen. Not sooner
  // than this; and how long before the round trip was measured.
  Duration probe_min = microseconds(500);
  Duration probe_unmeasured = milliseconds(5);
  CongestionKind congestion = CongestionKind::kAutomatic;
  std::uint32_t fixed_window_packets = 64;
  std::uint32_t message_octets_max = kMessageOctetsMax;
  objects::DirectAccess* direct = nullptr;  // see Engine::set_direct
  bool trains = true;                       // see Engine::set_trains
  // What one transmit() moves by direct access at most: some 100 us. The rest waits for the next, so that whoever
  // shares the engine's lock gets it in between.
  std::uint32_t direct_octets_max = 1024 * 1024;
  // For lossless paths; null: silence counts there as everywhere. Outlives the engine.
  const objects::PathProbe* probe = nullptr;
};

enum class SendVerdict : std::uint8_t {
  kSent,      // one frame was committed
  kNothing,   // nothing to send until something else happens
  kNoRoom,    // the link is full
  kNoBudget,  // too much in flight from this engine
};

struct Core {
  Core(const EngineConfig& given, objects::MemoryTable& table, EventSink& sink)
      : config(given), memory(table), events(sink) {}

  void schedule(QueuePair& qp);
  void wait_for_budget(QueuePair& qp);
  void set_flight(QueuePair& qp, std::uint32_t packets);
  [[nodiscard]] bool over_budget(std::uint32_t octets) const {
    return flight_octets != 0 && flight_octets + octets > config.flight_octets_max;
  }
  // So much more would leave no room for another packet of any QP.
  [[nodiscard]] bool fills_budget(std::uint32_t octets) const {
    return flight_octets + octets + kPacketOctetsMax > config.flight_octets_max;
  }
  void complete_send(QueuePair& qp, const objects::SendEntry& entry, objects::Status status,
                     objects::Cause cause, Instant now);
  void complete_receive(QueuePair& qp, objects::Completion& completion, Instant now);
  void fail_qp(QueuePair& qp, Instant now);              // to the error state, everything flushed
  const objects::SendEntry& take_oldest(QueuePair& qp);  // good until the next post
  void stop_sending(QueuePair& qp);                      // forgets timers and flight
  void flush_sends(QueuePair& qp, Instant now);
  void flush_receives(QueuePair& qp, Instant now);
  void check_drained(QueuePair& qp);
  // For XRC: which shared queue a number means; null: none.
  [[nodiscard]] objects::ReceiveQueue* xrc_queue(std::uint32_t number) const;

  EngineConfig config;
  objects::MemoryTable& memory;
  EventSink& events;
  CountersByDevice by_device;
  Counters& counters = by_device.of(0);                            // of packets that reach no QP
  IntrusiveList<QueuePair, &QueuePair::ready_hook> ready;          // have something to send
  IntrusiveList<QueuePair, &QueuePair::ready_hook> waiting;        // have, but the flight budget is spent
  IntrusiveList<QueuePair, &QueuePair::unflushed_hook> unflushed;  // UC, UD: sent but not flushed
  TimerQueue<QueuePair> timers;
  std::uint64_t flight_octets = 0;  // of all lossy paths
  std::uint32_t direct_left = 0;    // of this transmit()
  bool direct_yielded = false;
  struct XrcQueue {
    std::uint32_t number;
    objects::ReceiveQueue* queue;
  };
  std::vector<XrcQueue> xrc_queues;
};

}  // namespace rrdma::transport
