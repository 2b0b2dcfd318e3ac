// Requests of a program to the connection manager. responder_resources is the number of READs and atomics
// that the local queue pair serves at a time. initiator_depth is the number that it may have outstanding.
#pragma once

#include <cstdint>
#include <optional>

#include "base/instant.h"
#include "base/octets.h"
#include "cm/values/private_data.h"
#include "cm/values/route.h"
#include "cm/values/timing.h"
#include "wire/cm_ip_header.h"
#include "wire/cm_mad.h"
#include "wire/numbers.h"

namespace rrdma::cm {

inline constexpr std::uint8_t kDefaultResponseCode = 20;  // 4.3 s
inline constexpr std::uint8_t kDefaultCmRetries = 15;
inline constexpr std::uint8_t kPathMtuMax = 5;  // 4096 bytes

struct ConnectParameters {
  OwnerToken owner = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::optional<wire::IpCmHeader> ip;  // takes 36 of the 92 bytes of private data
  QpType qp_type = QpType::kReliable;
  wire::Qpn qpn;
  wire::Psn starting_psn;  // the first PSN that the local queue pair expects
  std::uint8_t path_mtu = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  bool flow_control = false;
  bool srq = false;
  std::uint8_t packet_lifetime = kRocePacketLifetime;
  std::uint8_t remote_response_code = kDefaultResponseCode;  // time to wait for the peer's answer
  std::uint8_t local_response_code = kDefaultResponseCode;   // time that the peer shall wait for our answer
  std::uint8_t max_cm_retries = kDefaultCmRetries;
  std::uint64_t local_ca_guid = 0;  // 0: Settings::ca_guid
  Ece ece;
  PrivateData private_data;
};

struct AcceptParameters {
  wire::Qpn qpn;
  wire::Psn starting_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t rnr_retry_count = 7;
  bool flow_control = false;
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  Ece ece;
  PrivateData private_data;
};

struct RejectParameters {
  wire::RejectReason reason = wire::RejectReason::kConsumerDefined;
  Octets info;
  PrivateData private_data;
};

struct LookupParameters {
  OwnerToken owner = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::optional<wire::IpCmHeader> ip;  // takes 36 of the 216 bytes of private data
  Duration timeout = time_of_code(kDefaultResponseCode);
  std::uint8_t max_cm_retries = kDefaultCmRetries;
  PrivateData private_data;
};

struct LookupReplyParameters {
  wire::SidrStatus status = wire::SidrStatus::kValid;
  wire::Qpn qpn;
  wire::QKey qkey;
  Ece ece;
  Octets info;
  PrivateData private_data;
};

}  // namespace rrdma::cm
