// Connection: the state of one connection, half-open connection or lookup. It is plain data; the state
// machine is in the Endpoint. States have the names of IBTA volume 1, 12.9; "Sent" and "Received" are from
// the local view.
//
// A connection lives until its owner destroys it. If messages are still due then (a DREQ to repeat, an answer
// that may be lost), it stays without an owner until its timer expires.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/instant.h"
#include "base/intrusive_list.h"
#include "cm/deadline_heap.h"
#include "cm/parameters.h"
#include "cm/values/established.h"
#include "wire/cm_mad.h"

namespace rrdma::cm {

enum class State : std::uint8_t {
  kIdle,  // closed; waits until its owner destroys it
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
  kRejected,  // sent REJ, and repeats it for duplicates; or received REJ, and drops them
  kSidrReqSent,
  kSidrReqReceived,
  kSidrReplied,  // sent SIDR_REP, and repeats it for duplicates
};
[[nodiscard]] std::string_view state_name(State state);

struct Listener;

struct Connection : EstablishedConnection {
  std::uint64_t serial = 0;  // distinguishes this connection from a later one with the same ID
  State state = State::kIdle;
  OwnerToken owner = 0;
  bool owned = true;
  bool announced = true;  // the owner has seen its ConnectRequest or LookupRequest

  std::uint64_t service_id = 0;
  bool alternate_path_asked = false;

  Duration time_asked_for;                   // requested by our last MRA
  std::optional<wire::MadBuffer> last_sent;  // for repetition by a timer or on a duplicate

  // While waiting for an answer: the interval before the next send, its bound, and the time to give up.
  Duration retry_interval;
  Duration retry_interval_max;
  Instant give_up_at = kNever;
  std::uint8_t unasked_repeats = 0;  // of the message that awaits an answer
  std::uint8_t asks = 0;  // kEstablished: how often we asked whether the peer still knows this connection
  TimerSlot timer;

  Listener* listener = nullptr;  // set while it counts against the listener's limits
  bool half_open = false;        // which of the two limits
  ListHook listener_hook;        // in the listener's unanswered or half-open list
  ListHook tombstone_hook;       // in the list of those kept only for duplicates

  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
};

}  // namespace rrdma::cm
