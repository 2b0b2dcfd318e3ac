// Messages of the connection manager (IBTA volume 1, chapter 12): values for the 232 bytes behind the MAD
// header. A message is parsed once, here; cm/ sees only these values. Fields keep the specification's names
// and codes. cm_mad.cc states the layout of each message once, for both directions. Reserved bits are ignored
// when parsed and zero when emitted.
//
// "local" is the sender of the message, "remote" its receiver.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/octets.h"
#include "base/result.h"
#include "wire/address.h"
#include "wire/cm_reasons.h"
#include "wire/mad.h"
#include "wire/numbers.h"

namespace rrdma::wire {

inline constexpr std::uint8_t kCmClassVersion = 2;
inline constexpr std::uint8_t kRetryCountMax = 7;  // the maximum of the 3-bit retry count and RNR retry count

// Names one side's half of a connection. Zero: not yet known.
struct CommId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(CommId, CommId) = default;
};

enum class CmAttribute : std::uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1a,
};

// The message that an MRA or a REJ refers to.
enum class CmMessageKind : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };

enum class CmTransport : std::uint8_t {
  kReliable = 0,
  kUnreliable = 1,
  kReliableDatagram = 2,
  kExtended = 3
};
inline constexpr std::uint8_t kCmExtendedTransportXrc = 1;

// Bytes of private data in each message.
inline constexpr std::size_t kReqPrivateOctets = 92;
inline constexpr std::size_t kMraPrivateOctets = 222;
inline constexpr std::size_t kRejPrivateOctets = 148;
inline constexpr std::size_t kRepPrivateOctets = 196;
inline constexpr std::size_t kRtuPrivateOctets = 224;
inline constexpr std::size_t kDreqPrivateOctets = 220;
inline constexpr std::size_t kDrepPrivateOctets = 224;
inline constexpr std::size_t kSidrReqPrivateOctets = 216;
inline constexpr std::size_t kSidrRepPrivateOctets = 136;
inline constexpr std::size_t kLapPrivateOctets = 168;
inline constexpr std::size_t kAprPrivateOctets = 148;
inline constexpr std::size_t kPrivateOctetsMax = 224;
inline constexpr std::size_t kAdditionalInfoOctets = 72;

using AdditionalInfo = std::array<std::uint8_t, kAdditionalInfoOctets>;

// One path of a connection as REQ and LAP describe it. LIDs are 0xffff (permissive) on RoCE.
struct CmPath {
  std::uint16_t local_lid = 0;
  std::uint16_t remote_lid = 0;
  Gid local_gid;
  Gid remote_gid;
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t packet_rate = 0;  // 6 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t service_level = 0;  // 4 bits
  bool subnet_local = false;
  std::uint8_t local_ack_timeout = 0;  // 5 bits: 4.096 us * 2^n
  friend bool operator==(const CmPath&, const CmPath&) = default;
};

struct CmReq {
  CommId local_comm_id;
  std::uint32_t vendor_id = 0;  // 24 bits: for enhanced connection establishment (ECE)
  std::uint64_t service_id = 0;
  std::uint64_t local_ca_guid = 0;
  QKey local_qkey;
  Qpn local_qpn;
  std::uint8_t responder_resources = 0;
  std::uint32_t local_eecn = 0;  // 24 bits
  std::uint8_t initiator_depth = 0;
  std::uint32_t remote_eecn = 0;                // 24 bits
  std::uint8_t remote_cm_response_timeout = 0;  // 5 bits
  CmTransport transport = CmTransport::kReliable;
  bool end_to_end_flow_control = false;
  Psn starting_psn;
  std::uint8_t local_cm_response_timeout = 0;  // 5 bits
  std::uint8_t retry_count = 0;                // 3 bits
  std::uint16_t partition_key = kDefaultPKey;
  std::uint8_t path_mtu = 0;  // 4 bits: 1 is 256 bytes, 5 is 4096
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;  // 3 bits
  std::uint8_t max_cm_retries = 0;   // 4 bits
  bool srq = false;
  std::uint8_t extended_transport = 0;  // 3 bits; with CmTransport::kExtended
  CmPath primary;
  CmPath alternate;  // all zero: no alternate path
  bool sap_supported = false;
  std::array<std::uint8_t, kReqPrivateOctets> private_data{};
  friend bool operator==(const CmReq&, const CmReq&) = default;
};

struct CmMra {
  CommId local_comm_id;
  CommId remote_comm_id;
  CmMessageKind kind = CmMessageKind::kReq;
  std::uint8_t service_timeout = 0;  // 5 bits
  std::array<std::uint8_t, kMraPrivateOctets> private_data{};
  friend bool operator==(const CmMra&, const CmMra&) = default;
};

struct CmRej {
  CommId local_comm_id;  // zero: none was assigned to the rejected REQ
  CommId remote_comm_id;
  CmMessageKind kind = CmMessageKind::kReq;
  std::uint8_t info_length = 0;  // at most kAdditionalInfoOctets
  RejectReason reason{};
  AdditionalInfo info{};
  std::array<std::uint8_t, kRejPrivateOctets> private_data{};
  friend bool operator==(const CmRej&, const CmRej&) = default;
};

struct CmRep {
  CommId local_comm_id;
  CommId remote_comm_id;
  QKey local_qkey;
  Qpn local_qpn;
  std::uint32_t vendor_id = 0;   // 24 bits, in three places
  std::uint32_t local_eecn = 0;  // 24 bits; holds the QPN of an XRC target
  Psn starting_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;   // 5 bits
  std::uint8_t failover_accepted = 0;  // 2 bits
  bool end_to_end_flow_control = false;
  std::uint8_t rnr_retry_count = 0;  // 3 bits
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  std::array<std::uint8_t, kRepPrivateOctets> private_data{};
  friend bool operator==(const CmRep&, const CmRep&) = default;
};

struct CmRtu {
  CommId local_comm_id;
  CommId remote_comm_id;
  std::array<std::uint8_t, kRtuPrivateOctets> private_data{};
  friend bool operator==(const CmRtu&, const CmRtu&) = default;
};

struct CmDreq {
  CommId local_comm_id;
  CommId remote_comm_id;
  Qpn remote_qpn;
  std::array<std::uint8_t, kDreqPrivateOctets> private_data{};
  friend bool operator==(const CmDreq&, const CmDreq&) = default;
};

struct CmDrep {
  CommId local_comm_id;
  CommId remote_comm_id;
  std::array<std::uint8_t, kDrepPrivateOctets> private_data{};
  friend bool operator==(const CmDrep&, const CmDrep&) = default;
};

struct CmSidrReq {
  CommId request_id;
  std::uint16_t partition_key = kDefaultPKey;
  std::uint64_t service_id = 0;
  std::array<std::uint8_t, kSidrReqPrivateOctets> private_data{};
  friend bool operator==(const CmSidrReq&, const CmSidrReq&) = default;
};

struct CmSidrRep {
  CommId request_id;
  SidrStatus status{};
  std::uint8_t info_length = 0;  // at most kAdditionalInfoOctets
  std::uint32_t vendor_id = 0;   // 24 bits, in two places
  Qpn qpn;
  std::uint64_t service_id = 0;
  QKey qkey;
  AdditionalInfo info{};
  std::array<std::uint8_t, kSidrRepPrivateOctets> private_data{};
  friend bool operator==(const CmSidrRep&, const CmSidrRep&) = default;
};

struct CmLap {
  CommId local_comm_id;
  CommId remote_comm_id;
  Qpn remote_qpn;
  std::uint8_t remote_cm_response_timeout = 0;  // 5 bits
  CmPath alternate;
  std::array<std::uint8_t, kLapPrivateOctets> private_data{};
  friend bool operator==(const CmLap&, const CmLap&) = default;
};

struct CmApr {
  CommId local_comm_id;
  CommId remote_comm_id;
  std::uint8_t info_length = 0;  // at most kAdditionalInfoOctets
  AlternatePathStatus status{};
  AdditionalInfo info{};
  std::array<std::uint8_t, kAprPrivateOctets> private_data{};
  friend bool operator==(const CmApr&, const CmApr&) = default;
};

using CmMessage =
    std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep, CmLap, CmApr>;

struct CmMad {
  std::uint64_t transaction_id = 0;
  std::uint32_t attribute_modifier = 0;  // REQ, REP and SIDR_REP carry the ECE options here
  CmMessage message;
  friend bool operator==(const CmMad&, const CmMad&) = default;
};

using MadBuffer = std::array<std::uint8_t, kMadOctets>;

[[nodiscard]] CmAttribute attribute_of(const CmMessage& message);
[[nodiscard]] std::string_view cm_message_name(CmAttribute attribute);

[[nodiscard]] Result<CmMad, MadError> parse_cm_mad(Octets mad);
// REQUIRES: every field fits into its width; an info_length is at most kAdditionalInfoOctets.
[[nodiscard]] MadBuffer emit_cm_mad(const CmMad& mad);

}  // namespace rrdma::wire
