// Engine: the transport of one lane. It owns the QPs, and does no I/O: packets, time and requests come
// in as arguments; frames go out through a FrameSink, completions into completion queues, events to an
// EventSink, and next_deadline() says when it wants to be called again.
//
// Threads: none. Its owner serialises all calls, except ReceiveQueue::post and CompletionQueue::poll,
// which have their own rules.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/instant.h"
#include "base/intrusive_list.h"
#include "base/prng.h"
#include "base/result.h"
#include "objects/direct_access.h"
#include "objects/frame.h"
#include "objects/memory.h"
#include "objects/work_queue.h"
#include "transport/attributes.h"
#include "transport/counters.h"
#include "transport/qp_state.h"
#include "transport/qp_table.h"
#include "transport/queue_pair.h"
#include "transport/timer_queue.h"
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

enum class QpEvent : std::uint8_t {
  kFatal,
  kAccessError,
  kRequestError,
  kCommunicationEstablished,
  kSendQueueDrained,
  kLastReceiveReached,
};

enum class SendVerdict : std::uint8_t;

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_qp_event(QueuePair& qp, QpEvent event) = 0;
  // The QP's state or attributes have changed, or (the last call) it is about to be destroyed.
  virtual void on_qp_changed(QueuePair& qp, bool destroyed) {
    static_cast<void>(qp);
    static_cast<void>(destroyed);
  }
  // A request fails, before its completion can be polled; of those that are flushed behind it, how many.
  virtual void on_request_failed(QueuePair& qp, const FailedRequest& failed) {
    static_cast<void>(qp);
    static_cast<void>(failed);
  }
  virtual void on_requests_flushed(QueuePair& qp, std::uint32_t sends, std::uint32_t receives) {
    static_cast<void>(qp);
    static_cast<void>(sends);
    static_cast<void>(receives);
  }
};

struct QpInit {
  QpType type = QpType::kRc;
  objects::ProtectionDomain* pd = nullptr;
  objects::CompletionQueue* send_cq = nullptr;
  objects::CompletionQueue* receive_cq = nullptr;
  objects::ReceiveQueue* shared_receive_queue = nullptr;
  std::uint32_t send_entries = 0;
  std::uint32_t receive_entries = 0;
  std::uint32_t send_sges = 1;
  std::uint32_t receive_sges = 1;
  std::uint32_t inline_octets = 0;
  bool signal_all = false;
  const void* xrc_domain = nullptr;  // XRC targets
  void* owner = nullptr;
};

enum class PostError : std::uint8_t {
  kNone,
  kQueueFull,
  kWrongState,
  kTooManySges,
  kInlineTooLong,
  kMessageTooLong,
  kOperationNotSupported,  // by this QP type
  kBadRequest,
};
std::string_view describe(PostError error);

// One send request as a caller gives it. For inline requests the list names plain memory.
struct SendRequest {
  objects::SendEntry entry;  // the caller's part
  std::span<const objects::Sge> list;
};

class Engine {
 public:
  // The memory table and the sink outlive the engine.
  Engine(const EngineConfig& config, objects::MemoryTable& memory, EventSink& events);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Control. The QPN is the caller's choice and must be free.
  QueuePair& create_qp(const QpInit& init, wire::Qpn qpn);
  Result<void, TransitionError> modify_qp(QueuePair& qp, const QpAttributes& attributes, std::uint32_t mask,
                                          Instant now);
  // Nothing of the QP is left in the engine; its completions stay in their queues unless purged by the owner.
  void destroy_qp(QueuePair& qp);
  [[nodiscard]] QueuePair* find_qp(wire::Qpn qpn) const { return table_.find(qpn); }
  template <typename Visit>
  void for_each_qp(Visit visit) const {
    table_.for_each(visit);
  }
  // For XRC: which shared queue a number means; set by the owner.
  void set_xrc_queue(std::uint32_t number, objects::ReceiveQueue* queue);
  [[nodiscard]] objects::ReceiveQueue* xrc_queue(std::uint32_t number) const;

  // UD: datagrams to the group reach the QP too. False if it is attached already (attach) or is not (detach).
  bool attach_multicast(QueuePair& qp, const wire::Gid& group);
  bool detach_multicast(QueuePair& qp, const wire::Gid& group);

  // Requests. post_send only queues: call transmit() afterwards. post_receive may be called without
  // the engine's serialisation while the QP is not in the error state.
  PostError post_send(QueuePair& qp, const SendRequest& request, Instant now);
  PostError post_receive(QueuePair& qp, std::uint64_t wr_id, std::span<const objects::Sge> list, Instant now);

  // Packets and time.
  void handle_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin, Instant now);
  void handle_timers(Instant now);
  [[nodiscard]] Instant next_deadline() const { return timers_.earliest(); }
  // Fills frames until nothing is left to send now or the sink has no room. True if something is left
  // that only waits for room: call again when the link has some.
  bool transmit(objects::FrameSink& sink, Instant now);
  [[nodiscard]] bool wants_transmit() const { return !ready_.empty(); }
  // The last transmit() left direct requests that wait for nothing but their turn: call it again soon.
  [[nodiscard]] bool has_yielded() const { return direct_yielded_; }
  // What transmit() gave to the sink has left: datagrams and unreliable messages are complete now.
  void flushed(Instant now);

  // The process behind this QP's peer is gone (same host): what is outstanding fails at once.
  void peer_gone(QueuePair& qp, Instant now);

  const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t qp_count() const { return table_.size(); }

  // What the owner learns after the engine began: the room of its links, and what they can do. Direct operations for
  // paths that allow them; null: everything goes as packets. Outlives the engine, or is taken back.
  void set_direct(objects::DirectAccess* direct) { config_.direct = direct; }
  // Octets in flight from one QP that is connected from now on, and from all QPs together, where packets can be lost.
  void set_windows(std::uint32_t window_octets_max, std::uint32_t flight_octets_max);
  // The peer of a QP turned out to be of our own kind, or not (kFeature…). May come at any time.
  void set_peer_features(QueuePair& qp, std::uint8_t features);
  // Whether a frame may carry a train, for all QPs, now and later. A train counts as many PSNs as its packets do:
  // either may end between two frames. What peers may send does not change.
  void set_trains(bool allowed);

 private:
  friend class Recovery;
  friend class Requester;
  friend class Completer;
  friend class Responder;
  friend class Datagram;

  void schedule(QueuePair& qp);
  void wait_for_budget(QueuePair& qp);
  void set_flight(QueuePair& qp, std::uint32_t packets);
  [[nodiscard]] bool over_budget(std::uint32_t octets) const {
    return flight_octets_ != 0 && flight_octets_ + octets > config_.flight_octets_max;
  }
  // So much more would leave no room for another packet of any QP.
  [[nodiscard]] bool fills_budget(std::uint32_t octets) const {
    return flight_octets_ + octets + kPacketOctetsMax > config_.flight_octets_max;
  }
  void detach_multicast(QueuePair& qp);  // from all groups
  void deliver_multicast(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                         Instant now);
  SendVerdict serve(QueuePair& qp, objects::FrameSink& sink, Instant now);
  bool send_cnp(QueuePair& qp, objects::FrameSink& sink);
  void complete_send(QueuePair& qp, const objects::SendEntry& entry, objects::Status status,
                     objects::Cause cause, Instant now);
  void complete_receive(QueuePair& qp, objects::Completion& completion, Instant now);
  void fail_qp(QueuePair& qp, Instant now);  // to the error state, everything flushed
  objects::SendEntry take_oldest(QueuePair& qp);
  void stop_sending(QueuePair& qp);  // forgets timers and flight
  void flush_sends(QueuePair& qp, Instant now);
  void flush_receives(QueuePair& qp, Instant now);
  void reset_qp(QueuePair& qp);
  void follow_features(QueuePair& qp);
  void choose_congestion(QueuePair& qp);
  void start_recovery(QueuePair& qp);  // the QP gets to RTS: how it will find and repair losses
  void apply(QueuePair& qp, const QpAttributes& attributes, std::uint32_t mask);
  void fit_trains(QueuePair& qp) const;
  PostError check_send(const QueuePair& qp, const SendRequest& request) const;
  void check_drained(QueuePair& qp);

  EngineConfig config_;
  objects::MemoryTable& memory_;
  EventSink& events_;
  Counters counters_;
  IntrusiveList<QueuePair, &QueuePair::ready_hook> ready_;          // have something to send
  IntrusiveList<QueuePair, &QueuePair::ready_hook> waiting_;        // have, but the flight budget is spent
  IntrusiveList<QueuePair, &QueuePair::unflushed_hook> unflushed_;  // UC, UD: sent but not flushed
  TimerQueue<QueuePair> timers_;
  EarlyPackets early_packets_;
  QpTable table_;
  std::uint64_t flight_octets_ = 0;  // of all lossy paths
  std::uint32_t direct_left_ = 0;    // of this transmit()
  bool direct_yielded_ = false;
  struct XrcQueue {
    std::uint32_t number;
    objects::ReceiveQueue* queue;
  };
  std::vector<XrcQueue> xrc_queues_;
  struct Membership {
    wire::Gid group;
    QueuePair* qp;
    friend bool operator==(const Membership&, const Membership&) = default;
  };
  std::vector<Membership> memberships_;
};

}  // namespace rrdma::transport
