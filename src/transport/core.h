// Core: the state that the parts of an engine share. Requester, Completer, Responder and Datagram are
// short-lived views of one QP. Core owns the order of service, the budget of bytes in flight, the timers and
// the ways in which a request ends.
#pragma once

#include <cstdint>
#include <vector>

#include "base/instant.h"
#include "base/intrusive_list.h"
#include "objects/direct_access.h"
#include "objects/frame.h"
#include "objects/memory.h"
#include "objects/staging.h"
#include "transport/qp/attributes.h"
#include "transport/qp/counters.h"
#include "transport/qp/event_sink.h"
#include "transport/qp/queue_pair.h"
#include "transport/qp/timer_queue.h"
#include "wire/transport_packet.h"

namespace rrdma::transport {

inline constexpr std::uint32_t kPacketOctetsMax = 4096;  // payload at the largest MTU

struct EngineConfig {
  // docs/adr/0015: bytes in flight from one QP, and from all QPs of a lossy link together.
  std::uint32_t window_octets_max = 512 * 1024;
  std::uint32_t flight_octets_max = 2 * 1024 * 1024;
  // Minimum delay of an early retransmission: one before the ack timeout, when the measured round trip
  // suggests a loss. It spends no retry. The minimum allows for a peer that gets no CPU for some 20 ms (a
  // busy or emulated host) and has lost nothing.
  Duration early_retransmit_min = milliseconds(30);
  // Byte for byte the transport as it was before probes and single-packet repair: go-back-N, after
  // early_retransmit_min at the earliest.
  bool strict = false;
  // If not strict: how long a peer may be silent before a probe, which is a packet that it may have seen,
  // asks it for an answer. probe_min is the lower bound; probe_unmeasured applies before the round trip is
  // measured.
  Duration probe_min = microseconds(500);
  Duration probe_unmeasured = milliseconds(5);
  CongestionKind congestion = CongestionKind::kAutomatic;
  std::uint32_t fixed_window_packets = 64;
  std::uint32_t message_octets_max = kMessageOctetsMax;
  objects::DirectAccess* direct = nullptr;  // see Engine::set_direct
  bool trains = true;                       // see Engine::set_trains
  // Bytes that one transmit() may move by direct access, worth about 100 us. The rest waits for the next
  // call, so that other users of the engine's lock get a turn.
  std::uint32_t direct_octets_max = 1024 * 1024;
  // For lossless paths; null: silence counts there as on any other path. Outlives the engine.
  const objects::PathProbe* probe = nullptr;
};

enum class SendVerdict : std::uint8_t {
  kSent,      // one frame was committed
  kNothing,   // nothing to send until something else happens
  kNoRoom,    // the link has no room
  kNoBudget,  // this engine has too much in flight
};

struct Core {
  Core(const EngineConfig& given, objects::MemoryTable& table, EventSink& sink)
      : config(given), memory(table), staging(table), events(sink) {}

  void schedule(QueuePair& qp);
  void wait_for_budget(QueuePair& qp);
  void set_flight(QueuePair& qp, std::uint32_t packets);
  [[nodiscard]] bool over_budget(std::uint32_t octets) const {
    return flight_octets != 0 && flight_octets + octets > config.flight_octets_max;
  }
  // True if `octets` more in flight would leave no room for another packet of any QP.
  [[nodiscard]] bool fills_budget(std::uint32_t octets) const {
    return flight_octets + octets + kPacketOctetsMax > config.flight_octets_max;
  }
  void complete_send(QueuePair& qp, const objects::SendEntry& entry, objects::Status status,
                     objects::Cause cause, Instant now);
  void complete_receive(QueuePair& qp, objects::Completion& completion, Instant now);
  void fail_qp(QueuePair& qp, Instant now);  // moves the QP to the error state and flushes everything
  const objects::SendEntry& take_oldest(QueuePair& qp);  // valid until the next post
  void stop_sending(QueuePair& qp);                      // clears timers and flight
  void flush_sends(QueuePair& qp, Instant now);
  void flush_receives(QueuePair& qp, Instant now);
  void check_drained(QueuePair& qp);
  // After a gather that failed: true if it only lacked a buffer, and the next transmit() repeats it.
  [[nodiscard]] bool yields_for_buffer() {
    const bool starved = staging.take_starved();
    yielded = yielded || starved;
    return starved;
  }
  // XRC: the shared queue with this number; null: none.
  [[nodiscard]] objects::ReceiveQueue* xrc_queue(std::uint32_t number) const;

  EngineConfig config;
  objects::MemoryTable& memory;
  objects::Staging staging;
  EventSink& events;
  objects::HeldEvents held_events;
  CountersByDevice by_device;
  Counters& counters = by_device.of(0);                            // for packets that reach no QP
  IntrusiveList<QueuePair, &QueuePair::ready_hook> ready;          // have something to send
  IntrusiveList<QueuePair, &QueuePair::ready_hook> waiting;        // ready, but the flight budget is spent
  IntrusiveList<QueuePair, &QueuePair::unflushed_hook> unflushed;  // UC, UD: sent but not flushed
  TimerQueue<QueuePair> timers;
  std::uint64_t flight_octets = 0;  // on all lossy paths
  std::uint32_t direct_left = 0;    // of this transmit()
  bool yielded = false;             // the last transmit() left work that waits for nothing but its turn
  struct XrcQueue {
    std::uint32_t number;
    objects::ReceiveQueue* queue;
  };
  std::vector<XrcQueue> xrc_queues;
};

// A QP at one time: the arguments of a step that belongs to no view.
struct Moment {
  Core& core;
  QueuePair& qp;
  Instant now;

  [[nodiscard]] CongestionView congestion_view() const {
    return {now, qp.req.una, qp.req.sent, qp.req.round_trip, qp.mtu};
  }
};

}  // namespace rrdma::transport
