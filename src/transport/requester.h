// Requester: turns send queue entries into request packets. It starts entries (assigns their PSNs) and splits
// them into frames. It sends again what the QP's LossRecovery selects. A short-lived view of one QP; all
// state is in QueuePair::req.
#pragma once

#include "transport/core.h"

namespace rrdma::transport {

class Requester {
 public:
  Requester(Core& core, QueuePair& qp, Instant now) : core_(core), qp_(qp), req_(qp.req), now_(now) {}

  SendVerdict send_next(objects::FrameSink& sink);
  // Sends all queued requests if they are SENDs of one frame each, on a lossless path, with nothing to wait
  // for: the common case of a small message. False: something is left, and send_next() decides about it.
  bool send_straight(objects::FrameSink& sink);

 private:
  enum class Start : std::uint8_t { kReady, kWait, kYield, kExecuted };
  // Contents of the next frame: a PSN of an entry, for the first time or again.
  struct Place {
    std::uint64_t index;
    objects::SendEntry& entry;
    wire::Psn psn;
    bool repair;  // a lost packet, chosen from the FlightLog; otherwise the next one in order
  };
  [[nodiscard]] Place next_place() { return {req_.index, qp_.send_queue.at(req_.index), req_.tx, false}; }
  [[nodiscard]] Place place_of_lost();
  SendVerdict send_repair(objects::FrameSink& sink);
  [[nodiscard]] bool goes_straight(const objects::SendEntry& entry) const;
  SendVerdict send(const Place& place, objects::FrameSink& sink);
  Start start(objects::SendEntry& entry);
  Start execute_local(objects::SendEntry& entry);
  [[nodiscard]] objects::Cause change_keys(const objects::SendEntry& entry);
  [[nodiscard]] bool may_go_direct(const objects::SendEntry& entry, bool far) const;
  // True if the target is memory that the CPU cannot touch, and direct access reaches it.
  [[nodiscard]] bool targets_far(const objects::SendEntry& entry) const;
  Start execute_direct(objects::SendEntry& entry, bool far);
  [[nodiscard]] Start yield() const;  // others have their turn, then it goes on
  Start execute_direct_atomic(objects::SendEntry& entry);
  Start finish_direct(objects::SendEntry& entry);
  Start finish_local(objects::SendEntry& entry);  // done without packets
  bool move_direct(const objects::SendEntry& entry, std::uint32_t octets) const;
  void fail_entry(objects::SendEntry& entry, objects::Status status, objects::Cause cause);
  // Checks the window and the engine's budget for `packets` more unacknowledged PSNs. One request may always
  // go if nothing is in flight, and so may a lost packet if it is the oldest.
  [[nodiscard]] SendVerdict check_room(const Place& place, std::uint32_t packets) const;
  [[nodiscard]] bool fits_window(std::uint32_t packets) const;
  [[nodiscard]] std::uint32_t window() const { return req_.congestion.window(); }
  [[nodiscard]] std::uint32_t missing_of_read(const Place& place, std::uint32_t packets) const;
  SendVerdict send_data(const Place& place, objects::FrameSink& sink);
  SendVerdict send_read(const Place& place, objects::FrameSink& sink);
  SendVerdict send_single(const Place& place, objects::FrameSink& sink);
  std::uint8_t* emit_base(objects::Frame& frame, const Place& place, wire::Step step, bool ack_request,
                          std::uint8_t pad) const;
  bool want_ack(const Place& place, bool ends_message, std::uint32_t packets);
  void take_ack_along(objects::Frame& frame);
  void sent(const Place& place, objects::Frame& frame, objects::FrameSink& sink, std::uint32_t packets,
            bool ack_requested);
  objects::Cause add_payload(const Place& place, std::uint32_t offset, std::uint32_t length,
                             objects::Frame& frame) const;
  // The payload of a request cannot be read, or not yet.
  SendVerdict refuse_payload(objects::SendEntry& entry, objects::Cause cause);
  [[nodiscard]] Moment moment() const { return {core_, qp_, now_}; }

  Core& core_;
  QueuePair& qp_;
  RequesterState& req_;
  Instant now_;
};

}  // namespace rrdma::transport
