// Completer: handles the answers that come back to the requester. ACKs, NAKs and responses retire entries in order. A
// loss that they reveal, or silence, makes the requester send again. Retries are counted here.
#pragma once

#include <optional>

#include "transport/core.h"

namespace rrdma::transport {

class Completer {
 public:
  Completer(Core& core, QueuePair& qp, Instant now) : core_(core), qp_(qp), req_(qp.req), now_(now) {}

  void handle(const wire::TransportPacket& packet);
  void handle_timeout();
  // Completes finished entries, oldest first. Fails the QP if the oldest entry has failed.
  void retire();
  void restart_timers();
  // Fails the oldest entry, and with it the QP, or only the send side for UC and UD.
  void fail_oldest(objects::Status status, objects::Cause cause);

 private:
  void handle_acknowledge(const wire::TransportHeaders& headers);
  void handle_logged_acknowledge(const wire::TransportHeaders& headers);
  void handle_arrivals(const wire::TransportPacket& packet);
  void handle_read_response(const wire::TransportPacket& packet);
  void handle_atomic_acknowledge(const wire::TransportHeaders& headers);
  // Everything up to and including `psn` has arrived. False if an earlier READ or ATOMIC lacks its response.
  bool acknowledge(wire::Psn psn);
  [[nodiscard]] bool told_already() const;
  void handle_nak(wire::Psn psn, std::uint8_t code);
  void handle_rnr(std::uint8_t timer_code);
  void implied_nak();
  void handle_silence();
  void handle_early_timeout();
  // Uses up one retry. False if none was left and the QP failed.
  bool spend_retry(objects::Cause cause);
  void note_attempt(Attempt::Why why, Instant since);
  void advance(wire::Psn una);
  // The entry that awaits the response `psn`, if any. Without a FlightLog only the oldest entry may receive one.
  std::optional<std::uint64_t> awaiting(wire::Psn psn);
  [[nodiscard]] std::optional<std::uint64_t> awaiting_logged(wire::Psn psn);
  // The response to a whole entry, or to a part of a READ, has arrived.
  void answered(objects::SendEntry& entry, wire::Psn last);
  void answered_part(objects::SendEntry& entry, wire::Psn first, wire::Psn last, bool alone);
  // The response to an entry is invalid. The oldest entry fails; the response to any other entry is requested again
  // once that entry is the oldest.
  void refuse_response(std::uint64_t index, objects::Status status, objects::Cause cause);
  objects::Cause place_read(std::uint64_t index, std::uint32_t offset, Octets payload);
  // The responses from `first` to `last` have arrived: counts the READs on the wire that end there as answered.
  void count_answered_reads(const objects::SendEntry& entry, wire::Psn first, wire::Psn last);
  [[nodiscard]] bool outstanding() const { return req_.una != req_.sent; }

  Core& core_;
  QueuePair& qp_;
  RequesterState& req_;
  Instant now_;
};

// Converts AETH timer codes and the ack timeout code to durations.
Duration rnr_delay(std::uint8_t code);
Duration ack_timeout_of(std::uint8_t code);

}  // namespace rrdma::transport
