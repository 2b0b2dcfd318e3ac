// QpAttributes: the attributes of a queue pair for each step of a connection, as REQ and REP determined them.
// The names are those of ibv_qp_attr.
#pragma once

#include <cstdint>

#include "cm/values/route.h"
#include "wire/numbers.h"

namespace rrdma::cm {

enum class QpStep : std::uint8_t { kInit, kReadyToReceive, kReadyToSend };

struct QpAttributes {
  QpType qp_type = QpType::kReliable;
  Route route;  // for kReadyToReceive
  // kInit: remote writes are always allowed, reads and atomics if this side serves any.
  bool remote_read_and_atomic = false;
  // kReadyToReceive
  std::uint8_t path_mtu = 0;
  wire::Qpn destination_qpn;
  wire::Psn receive_psn;
  std::uint8_t max_destination_reads = 0;  // max_dest_rd_atomic; not for UC and XRC initiators
  std::uint8_t min_rnr_timer = 0;          // likewise
  // kReadyToSend
  wire::Psn send_psn;
  std::uint8_t timeout = 0;      // not for UC
  std::uint8_t retry_count = 0;  // this and the next two: only RC and XRC initiators
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t max_reads = 0;  // max_rd_atomic
};

}  // namespace rrdma::cm
