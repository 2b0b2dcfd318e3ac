// Completer: what comes back to the requester. Acknowledgements, NAKs and responses retire entries in
// order; a loss that they reveal, or silence, sends the requester back; retries are counted here.
#pragma once

#include <optional>

#include "transport/core.h"

namespace rrdma::transport {

class Completer {
 public:
  Completer(Core& core, QueuePair& qp, Instant now) : core_(core), qp_(qp), req_(qp.req), now_(now) {}

  void handle(const wire::TransportPacket& packet);
  void handle_timeout();
  // Completes the entries that are done, from the oldest on; fails the QP if the oldest has failed.
  void retire();
  void restart_timers();
  // The oldest entry fails, and with it the QP, or its send side where the transport has no more to say.
  void fail_oldest(objects::Status status, objects::Cause cause);

 private:
  void handle_acknowledge(const wire::TransportHeaders& headers);
  void handle_logged_acknowledge(const wire::TransportHeaders& headers);
  void handle_arrivals(const wire::TransportPacket& packet);
  void handle_read_response(const wire::TransportPacket& packet);
  void handle_atomic_acknowledge(const wire::TransportHeaders& headers);
  // Everything up to and with `psn` has arrived. False if a READ or ATOMIC before it lacks its response.
  bool acknowledge(wire::Psn psn);
  [[nodiscard]] bool told_already() const;
  void handle_nak(wire::Psn psn, std::uint8_t code);
  void handle_rnr(std::uint8_t timer_code);
  void implied_nak();
  void handle_silence();
  void handle_early_timeout();
  // One more try, or the end. False if the QP failed.
  bool spend_retry(objects::Cause cause);
  void note_attempt(Attempt::Why why, Instant since);
  void advance(wire::Psn una);
  // The entry that awaits the response `psn`, if there is one: without a FlightLog only the oldest may.
  std::optional<std::uint64_t> awaiting(wire::Psn psn);
  [[nodiscard]] std::optional<std::uint64_t> awaiting_logged(wire::Psn psn);
  // The response to a whole entry, or to a part of a READ, is here.
  void answered(objects::SendEntry& entry, wire::Psn last);
  void answered_part(objects::SendEntry& entry, wire::Psn first, wire::Psn last, bool alone);
  // Something is wrong with the response to an entry. It fails if it is the oldest; if not, it is asked for again
  // when it is.
  void refuse_response(std::uint64_t index, objects::Status status, objects::Cause cause);
  objects::Cause place_read(std::uint64_t index, std::uint32_t offset, Octets payload);
  // The responses from `first` to `last` have come: READs on the wire that end there are answered.
  void count_answered_reads(const objects::SendEntry& entry, wire::Psn first, wire::Psn last);
  [[nodiscard]] bool outstanding() const { return req_.una != req_.sent; }

  Core& core_;
  QueuePair& qp_;
  RequesterState& req_;
  Instant now_;
};

// AETH timer codes and the ack timeout code as durations.
Duration rnr_delay(std::uint8_t code);
Duration ack_timeout_of(std::uint8_t code);

}  // namespace rrdma::transport
