// Completer: handles the answers that come back to the requester. ACKs, NAKs and responses retire entries in
// order. The QP's LossRecovery decides what is sent again after a loss or after silence. Retries are counted
// here.
#pragma once

#include "transport/core.h"

namespace rrdma::transport {

class Completer {
 public:
  Completer(Core& core, QueuePair& qp, Instant now) : core_(core), qp_(qp), req_(qp.req), now_(now) {}

  void handle(const wire::TransportPacket& packet);
  void handle_acknowledge(const wire::TransportHeaders& headers);
  void handle_timeout();
  // The peer's process has ended. REQUIRES: a request is outstanding.
  void fail_after_silence();
  // Completes finished entries, oldest first. Fails the QP if the oldest entry has failed.
  void retire();
  // Ends an entry that could not be sent; the QP fails when the entry is the oldest.
  void fail_entry(objects::SendEntry& entry, objects::Status status, objects::Cause cause);
  // Fails the oldest entry, and with it the QP, or only the send side for UC and UD.
  void fail_oldest(objects::Status status, objects::Cause cause);
  // True if a NAK that arrives now cannot answer the last retransmission.
  [[nodiscard]] bool told_already() const;

 private:
  void handle_arrivals(const wire::TransportPacket& packet);
  void handle_read_response(const wire::TransportPacket& packet);
  void handle_atomic_acknowledge(const wire::TransportHeaders& headers);
  void handle_nak(std::uint8_t code);
  void handle_rnr(std::uint8_t timer_code);
  // Uses up one retry. False if none was left and the QP failed.
  bool spend_retry(objects::Cause cause);
  void note_attempt(Attempt::Why why, Instant since);
  // The response to an entry is invalid. The oldest entry fails; the response to any other entry is requested
  // again once that entry is the oldest.
  void refuse_response(std::uint64_t index, objects::Status status, objects::Cause cause);
  objects::Cause place_read(std::uint64_t index, std::uint32_t offset, Octets payload);
  [[nodiscard]] const LossRecovery& recovery() const { return *req_.recovery; }
  [[nodiscard]] Moment moment() const { return {core_, qp_, now_}; }

  Core& core_;
  QueuePair& qp_;
  RequesterState& req_;
  Instant now_;
};

// Converts AETH timer codes and the ack timeout code to durations.
Duration rnr_delay(std::uint8_t code);
Duration ack_timeout_of(std::uint8_t code);

}  // namespace rrdma::transport
