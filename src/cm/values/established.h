// EstablishedConnection: the state of an established connection, which its program keeps in case the daemon
// dies.
#pragma once

#include <cstdint>

#include "base/instant.h"
#include "cm/values/route.h"
#include "wire/numbers.h"

namespace rrdma::cm {

// Everything that another Endpoint (a restarted daemon) needs to continue an established connection; also
// a part of every Connection.
struct EstablishedConnection {
  ConnectionId id;
  wire::CommId remote_id;  // or the request ID of a SIDR_REQ
  Route route;
  bool active = false;  // sent the REQ or SIDR_REQ
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
  std::uint8_t ack_timeout = 0;  // code; also the length of TIMEWAIT
  std::uint8_t max_cm_retries = 0;
  Duration response_timeout;  // the peer's time limit for an answer
  std::uint64_t transaction_id = 0;
  std::uint64_t local_ca_guid = 0;
};

}  // namespace rrdma::cm
