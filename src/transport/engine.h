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
#include "base/result.h"
#include "objects/memory.h"
#include "objects/work_queue.h"
#include "transport/core.h"
#include "transport/qp/attributes.h"
#include "transport/qp/qp_state.h"
#include "transport/qp/qp_table.h"
#include "transport/qp/queue_pair.h"
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
  std::uint16_t device = 0;          // whose counters it adds to; 0: none in particular
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
  [[nodiscard]] objects::ReceiveQueue* xrc_queue(std::uint32_t number) const {
    return core_.xrc_queue(number);
  }

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
  [[nodiscard]] Instant next_deadline() const { return core_.timers.earliest(); }
  // The same without what has been put off since: costs more, and spares its caller calls in vain.
  [[nodiscard]] Instant settled_deadline();
  // Fills frames until nothing is left to send now or the sink has no room. True if something is left
  // that only waits for room: call again when the link has some.
  bool transmit(objects::FrameSink& sink, Instant now);
  [[nodiscard]] bool wants_transmit() const { return !core_.ready.empty(); }
  // Answers are under way, by paths that can lose them.
  [[nodiscard]] bool in_flight() const { return core_.flight_octets != 0; }
  // The last transmit() left direct requests that wait for nothing but their turn: call it again soon.
  [[nodiscard]] bool has_yielded() const { return core_.direct_yielded; }
  // What transmit() gave to the sink has left: datagrams and unreliable messages are complete now.
  void flushed(Instant now);

  // The process behind this QP's peer is gone (same host): what is outstanding fails at once.
  void peer_gone(QueuePair& qp, Instant now);

  const Counters& counters() const { return core_.counters; }  // of device 0
  const CountersByDevice& counters_by_device() const { return core_.by_device; }
  [[nodiscard]] std::size_t qp_count() const { return table_.size(); }

  // What the owner learns after the engine began: the room of its links, and what they can do. Direct operations for
  // paths that allow them; null: everything goes as packets. Outlives the engine, or is taken back.
  void set_direct(objects::DirectAccess* direct) { core_.config.direct = direct; }
  // Octets in flight from one QP that is connected from now on, and from all QPs together, where packets can be lost.
  void set_windows(std::uint32_t window_octets_max, std::uint32_t flight_octets_max);
  // The peer of a QP turned out to be of our own kind, or not (kFeature…). May come at any time.
  void set_peer_features(QueuePair& qp, std::uint8_t features);
  // Whether a frame may carry a train, for all QPs, now and later. A train counts as many PSNs as its packets do:
  // either may end between two frames. What peers may send does not change.
  void set_trains(bool allowed);

 private:
  void detach_multicast(QueuePair& qp);  // from all groups
  void deliver_multicast(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                         Instant now);
  SendVerdict serve(QueuePair& qp, objects::FrameSink& sink, Instant now);
  bool send_cnp(QueuePair& qp, objects::FrameSink& sink);
  void reset_qp(QueuePair& qp);
  void follow_features(QueuePair& qp);
  void choose_congestion(QueuePair& qp);
  void start_recovery(QueuePair& qp);  // the QP gets to RTS: how it will find and repair losses
  void apply(QueuePair& qp, const QpAttributes& attributes, std::uint32_t mask);
  void fit_trains(QueuePair& qp) const;
  PostError check_send(const QueuePair& qp, const SendRequest& request) const;

  Core core_;
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
