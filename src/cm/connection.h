// Connection: all that an Endpoint knows about one connection, half-open connection or lookup. Passive;
// the state machine is in the Endpoint. States carry the names of IBTA volume 1, 12.9; "Sent" and
// "Received" are seen from here.
//
// A connection lives until its owner destroys it. One that still has something to say afterwards (a DREQ
// to repeat, an answer that may have been lost) stays without an owner until its timer ends it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/instant.h"
#include "base/intrusive_list.h"
#include "cm/deadline_heap.h"
#include "cm/parameters.h"
#include "wire/cm_mad.h"

namespace rrdma::cm {

enum class State : std::uint8_t {
  kIdle,  // over; waits for its owner to destroy it
  kReqSent,
  kMraReqReceived,  // the peer asked for more time to answer the REQ
  kReqReceived,
  kMraReqSent,
  kRepSent,
  kMraRepReceived,
  kRepReceived,
  kMraRepSent,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimeWait,
  kRejected,  // said REJ, and says it again to duplicates; or was told it, and drops them
  kSidrReqSent,
  kSidrReqReceived,
  kSidrReplied,  // said SIDR_REP, and says it again to duplicates
};
[[nodiscard]] std::string_view state_name(State state);

struct Listener;

struct Connection {
  ConnectionId id;
  std::uint64_t serial = 0;  // tells this connection from a later one with the same ID
  State state = State::kIdle;
  OwnerToken owner = 0;
  bool owned = true;
  bool announced = true;  // the owner has seen its ConnectRequest or LookupRequest
  bool active = false;    // sent the REQ or SIDR_REQ

  wire::CommId remote_id;  // or the request ID of a SIDR_REQ
  std::uint64_t transaction_id = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::uint64_t local_ca_guid = 0;

  QpType qp_type = QpType::kReliable;
  wire::Qpn local_qpn;
  wire::Qpn remote_qpn;
  wire::Psn send_psn;
  wire::Psn receive_psn;
  std::uint8_t path_mtu = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t ack_timeout = 0;  // code; also how long TIMEWAIT lasts
  bool alternate_path_asked = false;

  Duration response_timeout;  // how long the peer may take for an answer
  std::uint8_t max_cm_retries = 0;
  Duration time_asked_for;                   // by our last MRA
  std::optional<wire::MadBuffer> last_sent;  // what a timer or a duplicate asks for again

  // While an answer is awaited: the pause before the next send, its bound, and when to stop.
  Duration retry_interval;
  Duration retry_interval_max;
  Instant give_up_at = kNever;
  std::uint8_t unasked_repeats = 0;  // of the message that awaits its answer
  TimerSlot timer;

  Listener* listener = nullptr;  // while it counts against the listener's bounds
  bool half_open = false;        // as which of the two
  ListHook listener_hook;        // among the unanswered or the half-open ones of the listener
  ListHook tombstone_hook;       // among those that only wait for duplicates

  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
};

}  // namespace rrdma::cm
