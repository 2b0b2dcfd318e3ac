// Timers: an unanswered message is repeated until the peer has had its full response time. TIMEWAIT and kept
// answers expire. A connection has at most one timer.
#include <algorithm>

#include "base/assert.h"
#include "cm/endpoint.h"

namespace rrdma::cm {
namespace {

// One peer or program may have made thousands of connections due at the same time.
constexpr std::size_t kTimeoutsInOneCall = 64;

}  // namespace

// Gives the peer `nominal` times max_cm_retries + 1. Within that time, the interval between sends starts at
// `first` and doubles; if `first` is zero, every interval is `nominal`.
void Endpoint::await_answer(Instant now, Connection& connection, Duration nominal, Duration first) {
  const bool early = first.ns != 0;
  connection.retry_interval_max = early ? std::min(nominal, settings_.retry_interval_max) : nominal;
  connection.retry_interval = early ? std::min(first, connection.retry_interval_max) : nominal;
  connection.give_up_at = now + nominal * (connection.max_cm_retries + 1);
  connection.unasked_repeats = 0;
  timers_.set(connection, std::min(now + connection.retry_interval, connection.give_up_at));
}

void Endpoint::handle_timeouts(Instant now) {
  // Stop when the queue is full, because further sends would be lost. Due timers wait until the queue is
  // polled.
  for (std::size_t i = 0;
       i < kTimeoutsInOneCall && timers_.next_deadline() <= now && outgoing_.size() < settings_.outgoing_max;
       ++i)
    handle_timeout(now, timers_.front());
}

void Endpoint::handle_timeout(Instant now, Connection& connection) {
  switch (connection.state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kDreqSent:
    case State::kSidrReqSent:
      if (now < connection.give_up_at && may_be_forged(connection)) {
        timers_.set(connection, connection.give_up_at);
      } else if (now < connection.give_up_at) {
        ++connection.unasked_repeats;
        send_again(now, connection);
      } else {
        give_up(now, connection);
      }
      break;
    case State::kTimeWait:
      tell(connection, TimeWaitExit{});
      become_idle(connection);
      break;
    case State::kRejected:
      if (now < connection.give_up_at) {
        send_again(now, connection);
      } else {
        become_idle(connection);
      }
      break;
    case State::kSidrReplied: become_idle(connection); break;
    case State::kEstablished: ask_peer(now, connection); break;
    default:
      // No other state sets or keeps a timer.
      RRDMA_ASSERT(connection.timer.place == TimerSlot::kUnset);
  }
}

// Whether the source of the REQ may be forged: several REPs were not answered, and this address has never
// proved that it receives our messages.
bool Endpoint::may_be_forged(const Connection& connection) const {
  return connection.state == State::kRepSent &&
         connection.unasked_repeats >= settings_.repeats_to_strangers &&
         !known_peers_.contains(connection.route.remote);
}

void Endpoint::send_again(Instant now, Connection& connection) {
  resend(connection);
  ++counters_.retries[index_of(static_cast<wire::CmAttribute>((*connection.last_sent)[17]))];
  connection.retry_interval = std::min(connection.retry_interval * 2, connection.retry_interval_max);
  timers_.set(connection, std::min(now + connection.retry_interval, connection.give_up_at));
}

void Endpoint::give_up(Instant now, Connection& connection) {
  switch (connection.state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      // The peer may hold its half of the connection that we gave up. IBTA 12.9.7.
      send_timeout_rej(connection);
      tell(connection, Unreachable{wire::CmAttribute::kReq});
      become_idle(connection);
      break;
    case State::kRepSent:
    case State::kMraRepReceived:
      send_timeout_rej(connection);
      tell(connection, Unreachable{wire::CmAttribute::kRep});
      become_rejected(now, connection);
      break;
    case State::kDreqSent:
      tell(connection, Disconnected{DisconnectCause::kNoAnswer});
      enter_timewait(now, connection);
      break;
    case State::kSidrReqSent:
      tell(connection, Unreachable{wire::CmAttribute::kSidrReq});
      become_idle(connection);
      break;
    default:
      // Only the states above wait for an answer.
      RRDMA_ASSERT(connection.state == State::kReqSent);
  }
}

}  // namespace rrdma::cm
