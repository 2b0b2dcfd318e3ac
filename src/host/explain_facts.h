// ExplainFacts: the numbers behind a sentence about a failed work request or a rejected connection. They are
// stored in the file that `rrdma explain` reads, for --json and for translated remedies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/gid.h"

namespace rrdma::host {

struct ExplainFacts {
  static constexpr std::size_t kAttempts = 8;
  enum Kind : std::uint8_t { kNone, kSend, kReceive, kRefused, kRejected };

  std::uint8_t kind = kNone;
  std::uint8_t status = 0;    // ibv_wc_status
  std::uint8_t cause = 0;     // objects::Cause
  std::uint8_t opcode = 0;    // ibv_wc_opcode
  std::uint8_t qp_type = 0;   // ibv_qp_type
  std::uint8_t shm = 0;       // 1: the peer is on this host
  std::uint8_t syndrome = 0;  // of the deciding AETH; 0: none
  std::uint8_t timeout = 0;   // QP attributes
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
  std::uint16_t reason = 0;  // kRejected: of the REJ
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint32_t moved = 0;
  std::uint64_t wr_id = 0;
  std::uint64_t remote_address = 0;
  wire::Gid peer;
  std::uint32_t flushed_sends = 0;  // after this failure
  std::uint32_t flushed_receives = 0;
  std::uint32_t attempts = 0;                // total; the last ones follow, oldest first
  std::uint32_t attempt_us[kAttempts] = {};  // since the requester began to wait for the first try
  std::uint8_t attempt_why[kAttempts] = {};  // transport::Attempt::Why
  std::uint32_t failed_us = 0;               // time of the failure, by the same clock

  std::uint64_t lost = 0;  // packets that injected faults had dropped before

  // The element of the request that was refused here; 0 if the cause is not local.
  std::uint64_t local_address = 0;
  std::uint32_t local_length = 0;
  std::uint32_t lkey = 0;
  // The memory region beside the refused address, if it is of this process.
  enum Region : std::uint8_t { kNoRegion, kNamedByKey, kNearest };
  std::uint8_t region = kNoRegion;
  std::uint32_t region_key = 0;
  std::uint64_t region_address = 0;
  std::uint64_t region_length = 0;
  std::uint32_t region_access = 0;  // IBV_ACCESS_*

  // The process at the other end, if it was on this host and is gone.
  enum Fate : std::uint8_t { kUnknownFate, kExited, kKilled };
  std::uint8_t peer_fate = kUnknownFate;
  std::uint32_t peer_pid = 0;  // 0: of another user or another PID namespace
  char peer_program[32] = {};

  // The answer of a router or of the peer's host by ICMP; as link::NetworkReport.
  enum Report : std::uint8_t { kNoReport, kHopsExceeded, kPortClosed, kUnreachable, kForbidden, kTooLong };
  std::uint8_t report = kNoReport;
  wire::Gid reporter;
  std::uint32_t reported_mtu = 0;

  // The meaning of `timeout`: 4.096 us * 2^n.
  [[nodiscard]] double timeout_ms() const { return 4.096e-3 * static_cast<double>(1u << (timeout & 31)); }
};

// The facts as digits, for captures, and back. Only one build reads what it wrote: empty if the sizes differ.
[[nodiscard]] std::string digits_of(const ExplainFacts& facts);
[[nodiscard]] std::optional<ExplainFacts> facts_from(std::string_view digits);

}  // namespace rrdma::host
