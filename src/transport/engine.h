// Engine: the transport of one lane. It owns the QPs and does no I/O: packets, time and requests come in as
// arguments. Frames leave through a FrameSink, completions go into completion queues and events to an
// EventSink. next_deadline() says when the engine must be called again.
//
// Threads: none. The owner serialises all calls, except ReceiveQueue::post and CompletionQueue::poll, which
// have their own rules.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/instant.h"
#include "base/result.h"
#include "objects/memory.h"
#include "objects/work_queue.h"
#include "transport/core.h"
#include "transport/qp/attributes.h"
#include "transport/qp/qp_state.h"
#include "transport/qp/qp_table.h"
#include "transport/qp/queue_pair.h"
#include "wire/last_answer.h"
#include "wire/transport_packet.h"

namespace rrdma::transport {

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
  std::uint16_t device = 0;          // whose counters the QP adds to; 0: no particular device
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

// One send request as the caller gives it. For inline requests the list names plain memory.
struct SendRequest {
  objects::SendEntry entry;  // only the caller's fields
  std::span<const objects::Sge> list;
};

class Engine {
 public:
  // The memory table and the sink must outlive the engine.
  Engine(const EngineConfig& config, objects::MemoryTable& memory, EventSink& events);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Control. The caller chooses the QPN. REQUIRES: it is free.
  QueuePair& create_qp(const QpInit& init, wire::Qpn qpn);
  Result<void, TransitionError> modify_qp(QueuePair& qp, const QpAttributes& attributes, std::uint32_t mask,
                                          Instant now);
  // Removes every trace of the QP from the engine. Its completions stay in their queues unless the owner
  // purges them.
  void destroy_qp(QueuePair& qp);
  [[nodiscard]] QueuePair* find_qp(wire::Qpn qpn) const { return table_.find(qpn); }
  template <typename Visit>
  void for_each_qp(Visit visit) const {
    table_.for_each(visit);
  }
  // XRC: maps a number to a shared queue; set by the owner.
  void set_xrc_queue(std::uint32_t number, objects::ReceiveQueue* queue);
  [[nodiscard]] objects::ReceiveQueue* xrc_queue(std::uint32_t number) const {
    return core_.xrc_queue(number);
  }

  // UD: delivers datagrams of the group to the QP. False if already attached (attach) or not attached
  // (detach).
  bool attach_multicast(QueuePair& qp, const wire::Gid& group);
  bool detach_multicast(QueuePair& qp, const wire::Gid& group);

  // Requests. post_send only queues: call transmit() afterwards. post_receive may be called without the
  // engine's serialisation while the QP is not in the error state.
  PostError post_send(QueuePair& qp, const SendRequest& request, Instant now);
  // The same in two steps, which copies no entry: fill this one, and post it. It has defaults, and it is a
  // spare one if the queue is full.
  [[nodiscard]] objects::SendEntry& next_entry(QueuePair& qp) {
    return qp.send_queue.full() ? spare_entry_ = {} : qp.send_queue.reserve();
  }
  PostError post_entry(QueuePair& qp, objects::SendEntry& entry, std::span<const objects::Sge> list,
                       Instant now);
  PostError post_receive(QueuePair& qp, std::uint64_t wr_id, std::span<const objects::Sge> list, Instant now);

  // Packets and time.
  void handle_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin, Instant now);
  void handle_timers(Instant now);
  [[nodiscard]] Instant next_deadline() const { return core_.timers.earliest(); }
  // As next_deadline(), but ignores deadlines that were postponed since. Costs more, and saves the caller
  // useless calls.
  [[nodiscard]] Instant settled_deadline();
  // Fills frames until there is nothing more to send or the sink has no room. True if something is left that
  // only waits for room: call again when the link has some.
  bool transmit(objects::FrameSink& sink, Instant now);
  // Sends what was just posted to this QP, if that is simple and nothing else is to be sent
  // (Requester::send_straight). False: call transmit().
  bool transmit_straight(QueuePair& qp, objects::FrameSink& sink, Instant now);
  [[nodiscard]] bool wants_transmit() const { return !core_.ready.empty(); }
  // True if answers are outstanding on lossy paths.
  [[nodiscard]] bool in_flight() const { return core_.flight_octets != 0; }
  // The last transmit() left requests that only wait for their turn: call it again soon.
  [[nodiscard]] bool has_yielded() const { return core_.yielded; }
  // Everything that transmit() gave to the sink was sent: datagrams and unreliable messages are now complete.
  void flushed(Instant now);

  // Hears of regions that close (MemoryTable::add_listener), and counts the copies of each kind of memory.
  [[nodiscard]] objects::Staging& staging() { return core_.staging; }
  [[nodiscard]] const objects::Staging& staging() const { return core_.staging; }

  // Completion events may be held until the received packets are answered.
  [[nodiscard]] objects::HeldEvents& held_events() { return core_.held_events; }

  // The process behind this QP's peer is gone (same host). `answer` names the last message that it delivered.
  // That message and all earlier ones are acknowledged.
  void handle_last_answer(QueuePair& qp, const wire::LastAnswer& answer, Instant now);
  // The peer's process on this host is gone: outstanding requests fail after a short silence.
  void peer_gone(QueuePair& qp, Instant now);

  const Counters& counters() const { return core_.counters; }  // of device 0
  const CountersByDevice& counters_by_device() const { return core_.by_device; }
  [[nodiscard]] std::size_t qp_count() const { return table_.size(); }

  // Settings that the owner learns after construction. `direct` executes one-sided operations on paths that
  // allow it; null: every operation uses packets. It must outlive the engine or be reset.
  void set_direct(objects::DirectAccess* direct) { core_.config.direct = direct; }
  // Limits bytes in flight on lossy paths: from one QP that connects after this call, and from all QPs
  // together.
  void set_windows(std::uint32_t window_octets_max, std::uint32_t flight_octets_max);
  // The peer of a QP proved to be RRDMA, or not (kFeature…). May be called at any time.
  void set_peer_features(QueuePair& qp, std::uint8_t features);
  // Allows or forbids trains in outgoing frames, for all present and future QPs. A train takes as many PSNs
  // as its packets, so the setting may change between any two frames. Incoming trains are unaffected.
  void set_trains(bool allowed);

 private:
  void detach_multicast(QueuePair& qp);  // from all groups
  void deliver_multicast(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                         Instant now);
  SendVerdict serve(QueuePair& qp, objects::FrameSink& sink, Instant now);
  bool send_cnp(QueuePair& qp, objects::FrameSink& sink);
  void drop_work(QueuePair& qp);  // without completions
  void reset_qp(QueuePair& qp);
  void follow_features(QueuePair& qp);
  void choose_congestion(QueuePair& qp);
  void start_recovery(QueuePair& qp);  // the QP enters RTS: chooses how it detects and repairs losses
  void apply(QueuePair& qp, const QpAttributes& attributes, std::uint32_t mask);
  void fit_trains(QueuePair& qp) const;
  PostError check_send(const QueuePair& qp, const objects::SendEntry& entry,
                       std::span<const objects::Sge> list) const;

  Core core_;
  objects::SendEntry spare_entry_;
  FlightStore flight_store_;
  EarlyPackets early_packets_;
  QpTable table_;
  struct Membership {
    wire::Gid group;
    QueuePair* qp;
    friend bool operator==(const Membership&, const Membership&) = default;
  };
  std::vector<Membership> memberships_;
};

}  // namespace rrdma::transport
