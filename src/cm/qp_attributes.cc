#include "cm/qp_attributes.h"

namespace rrdma::cm {

bool attributes_known(State state, QpStep step) {
  switch (state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      // The peer's half is unknown before its REP.
      return step == QpStep::kInit;
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kRepReceived:
    case State::kMraRepSent:
    case State::kEstablished: return true;
    case State::kIdle:
    case State::kDreqSent:
    case State::kDreqReceived:
    case State::kTimeWait:
    case State::kRejected:
    case State::kSidrReqSent:
    case State::kSidrReqReceived:
    case State::kSidrReplied: return false;
  }
  return false;
}

QpAttributes attributes_of(const Connection& connection) {
  return {.qp_type = connection.qp_type,
          .route = connection.route,
          .remote_read_and_atomic = connection.responder_resources != 0,
          .path_mtu = connection.path_mtu,
          .destination_qpn = connection.remote_qpn,
          .receive_psn = connection.receive_psn,
          .max_destination_reads = connection.responder_resources,
          .min_rnr_timer = 0,
          .send_psn = connection.send_psn,
          .timeout = connection.ack_timeout,
          .retry_count = connection.retry_count,
          .rnr_retry_count = connection.rnr_retry_count,
          .max_reads = connection.initiator_depth};
}

}  // namespace rrdma::cm
