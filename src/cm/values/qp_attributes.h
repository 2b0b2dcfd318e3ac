// QpAttributes: what a queue pair must be told to take part in a connection, step by step, as the exchange
// of REQ and REP settled it. The names are those of ibv_qp_attr.
#pragma once

#include <cstdint>

#include "cm/values/route.h"
#include "wire/numbers.h"

namespace rrdma::cm {

enum class QpStep : std::uint8_t { kInit, kReadyToReceive, kReadyToSend };

struct QpAttributes {
  QpType qp_type = QpType::kReliable;
  Route route;  // of kReadyToReceive
  // kInit: remote writes are always allowed, reads and atomics if this side serves any.
  bool remote_read_and_atomic = false;
  // kReadyToReceive
  std::uint8_t path_mtu = 0;
  wire::Qpn destination_qpn;
  wire::Psn receive_psn;
  std::uint8_t max_destination_reads = 0;  // max_dest_rd_atomic; not of UC and XRC initiators
  std::uint8_t min_rnr_timer = 0;          // the same
  // kReadyToSend
  wire::Psn send_psn;
  std::uint8_t timeout = 0;      // not of UC
  std::uint8_t retry_count = 0;  // these three: RC and XRC initiators
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t max_reads = 0;  // max_rd_atomic
};

}  // namespace rrdma::cm
