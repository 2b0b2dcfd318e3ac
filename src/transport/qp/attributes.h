// The type, states and attributes of a QP. The values equal those of the verbs ABI (enum ibv_qp_state,
// ibv_qp_type, ibv_qp_attr_mask), so the ABI boundary converts them by cast.
#pragma once

#include <cstdint>
#include <string_view>

#include "objects/path.h"
#include "wire/numbers.h"

namespace rrdma::transport {

enum class QpType : std::uint8_t {
  kRc = 2,
  kUc = 3,
  kUd = 4,
  kXrcSend = 9,
  kXrcReceive = 10,
};

enum class QpState : std::uint8_t {
  kReset = 0,
  kInit = 1,
  kReadyToReceive = 2,
  kReadyToSend = 3,
  kDrain = 4,      // SQD
  kSendError = 5,  // SQE
  kError = 6,
};
std::string_view describe(QpState state);
std::string_view describe(QpType type);

enum AttributeBit : std::uint32_t {
  kAttrState = 1u << 0,
  kAttrCurrentState = 1u << 1,
  kAttrDrainNotify = 1u << 2,
  kAttrAccessFlags = 1u << 3,
  kAttrPKeyIndex = 1u << 4,
  kAttrPort = 1u << 5,
  kAttrQKey = 1u << 6,
  kAttrPath = 1u << 7,
  kAttrPathMtu = 1u << 8,
  kAttrTimeout = 1u << 9,
  kAttrRetryCount = 1u << 10,
  kAttrRnrRetry = 1u << 11,
  kAttrReceivePsn = 1u << 12,
  kAttrMaxReads = 1u << 13,  // max_rd_atomic
  kAttrAlternatePath = 1u << 14,
  kAttrMinRnrTimer = 1u << 15,
  kAttrSendPsn = 1u << 16,
  kAttrMaxDestinationReads = 1u << 17,  // max_dest_rd_atomic
  kAttrPathMigration = 1u << 18,
  kAttrCapabilities = 1u << 19,
  kAttrDestinationQpn = 1u << 20,
  kAttrRateLimit = 1u << 25,
};

// IBV_MTU_256 = 1 .. IBV_MTU_4096 = 5.
constexpr std::uint32_t mtu_octets(std::uint8_t code) { return 128u << code; }
inline constexpr std::uint8_t kMtuCodeMin = 1;
inline constexpr std::uint8_t kMtuCodeMax = 5;

struct QpAttributes {
  QpState state = QpState::kReset;
  QpState current_state = QpState::kReset;
  bool drain_notify = false;
  std::uint32_t access_flags = 0;
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 1;
  wire::QKey qkey;
  objects::Path path;  // resolved by nic/
  std::uint8_t path_mtu = kMtuCodeMin;
  std::uint8_t timeout = 0;  // 4.096 us * 2^timeout; 0: never
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;  // 7: retry forever
  std::uint8_t min_rnr_timer = 0;
  wire::Psn receive_psn;
  wire::Psn send_psn;
  std::uint8_t max_reads = 0;
  std::uint8_t max_destination_reads = 0;
  wire::Qpn destination;
};

// A quarter of the PSN space at the smallest MTU, so that "before" stays decidable with several messages in
// flight.
inline constexpr std::uint32_t kMessageOctetsMax = 1u << 30;
inline constexpr std::uint8_t kReadsMax = 128;  // max_qp_rd_atom and max_qp_init_rd_atom

}  // namespace rrdma::transport
