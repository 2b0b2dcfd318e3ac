// Completer: what comes back to the requester. Acknowledgements, NAKs and responses retire entries in
// order; a loss that they reveal, or silence, sends the requester back; retries are counted here.
#pragma once

#include "transport/engine.h"

namespace rrdma::transport {

class Completer {
 public:
  Completer(Engine& engine, QueuePair& qp, Instant now) : engine_(engine), qp_(qp), req_(qp.req), now_(now) {}

  void handle(const wire::TransportPacket& packet);
  void handle_timeout();
  // Completes the entries that are done, from the oldest on; fails the QP if the oldest has failed.
  void retire();
  void restart_timers();

 private:
  void handle_acknowledge(const wire::TransportHeaders& headers);
  void handle_read_response(const wire::TransportPacket& packet);
  void handle_atomic_acknowledge(const wire::TransportHeaders& headers);
  // Everything up to and with `psn` has arrived. False if a READ or ATOMIC before it lacks its response.
  bool acknowledge(wire::Psn psn);
  [[nodiscard]] bool told_already() const;
  void handle_nak(wire::Psn psn, std::uint8_t code);
  void handle_rnr(std::uint8_t timer_code);
  void implied_nak();
  // One more try, or the end. False if the QP failed.
  bool spend_retry(objects::Cause cause);
  void fail_oldest(objects::Status status, objects::Cause cause);
  void advance(wire::Psn una);
  // The oldest entry if it awaits a response and `psn` lies in it; null otherwise.
  objects::SendEntry* awaiting(wire::Psn psn);
  void answered(objects::SendEntry& entry, wire::Psn last);
  // The responses from `first` to `last` have come: READs on the wire that end there are answered.
  void count_answered_reads(const objects::SendEntry& entry, wire::Psn first, wire::Psn last);
  [[nodiscard]] bool outstanding() const { return req_.una != req_.sent; }

  Engine& engine_;
  QueuePair& qp_;
  RequesterState& req_;
  Instant now_;
};

// AETH timer codes and the ack timeout code as durations.
Duration rnr_delay(std::uint8_t code);
Duration ack_timeout_of(std::uint8_t code);

}  // namespace rrdma::transport
