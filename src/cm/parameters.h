// What owners of connections hand to an Endpoint, and the types that both speak in. Everything is seen
// from the local side: `local` is this host, responder_resources are the READs and atomics that the
// local queue pair serves at a time, initiator_depth those that it may have outstanding.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/instant.h"
#include "base/octets.h"
#include "cm/timing.h"
#include "wire/address.h"
#include "wire/cm_ip_header.h"
#include "wire/cm_mad.h"
#include "wire/numbers.h"

namespace rrdma::cm {

// A connection, a half-open one or a lookup (SIDR): the local communication ID on the wire.
using ConnectionId = wire::CommId;

struct ListenerId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(ListenerId, ListenerId) = default;
};

// Whatever lets the owner find its own record again; the Endpoint only hands it back.
using OwnerToken = std::uint64_t;

enum class QpType : std::uint8_t { kReliable, kUnreliable, kXrcInitiator, kXrcTarget };

inline constexpr std::uint8_t kRocePacketLifetime = 16;
inline constexpr std::uint8_t kDefaultResponseCode = 20;  // 4.3 s
inline constexpr std::uint8_t kDefaultCmRetries = 15;
inline constexpr std::uint8_t kPathMtuMax = 5;  // 4096 octets

// Where MADs and later the queue pair's packets go.
struct Route {
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t service_level = 0;
  std::uint16_t partition_key = wire::kDefaultPKey;
  friend bool operator==(const Route&, const Route&) = default;
};

// Enhanced connection establishment: opaque to everybody but the two drivers.
struct Ece {
  std::uint32_t vendor_id = 0;  // 24 bits
  std::uint32_t options = 0;
  friend bool operator==(const Ece&, const Ece&) = default;
};

// Who may call a listener: the most specific one takes the call.
struct AddressMatch {
  enum class Kind : std::uint8_t {
    kExactIp,     // calls to `address`
    kAnyIpv4,     // calls to any IPv4 address
    kAnyIpv6,     // calls to any IPv6 address
    kAnyIp,       // both
    kEverything,  // also calls without an IP-CM header
  };
  Kind kind = Kind::kEverything;
  wire::Gid address;
  friend bool operator==(const AddressMatch&, const AddressMatch&) = default;
};

struct ListenParameters {
  OwnerToken owner = 0;
  std::uint64_t service_id = 0;
  AddressMatch match;
  std::size_t backlog = 0;      // requests that wait for their owner's answer; 0: as many as there may be
  bool reject_overflow = true;  // false: drop what is beyond the backlog, and let the caller try again
};

struct ConnectParameters {
  OwnerToken owner = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::optional<wire::IpCmHeader> ip;  // takes 36 of the 92 octets of private data
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
  std::uint8_t remote_response_code = kDefaultResponseCode;  // how long to wait for an answer
  std::uint8_t local_response_code = kDefaultResponseCode;   // how long the peer shall wait for ours
  std::uint8_t max_cm_retries = kDefaultCmRetries;
  std::uint64_t local_ca_guid = 0;  // 0: Settings::ca_guid
  Ece ece;
  Octets private_data;
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
  Octets private_data;
};

struct RejectParameters {
  wire::RejectReason reason = wire::RejectReason::kConsumerDefined;
  Octets info;
  Octets private_data;
};

struct LookupParameters {
  OwnerToken owner = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::optional<wire::IpCmHeader> ip;  // takes 36 of the 216 octets of private data
  Duration timeout = time_of_code(kDefaultResponseCode);
  std::uint8_t max_cm_retries = kDefaultCmRetries;
  Octets private_data;
};

struct LookupReplyParameters {
  wire::SidrStatus status = wire::SidrStatus::kValid;
  wire::Qpn qpn;
  wire::QKey qkey;
  Ece ece;
  Octets info;
  Octets private_data;
};

enum class Error : std::uint8_t {
  kUnknownConnection,
  kUnknownListener,
  kWrongState,
  kAlreadyEstablished,
  kPrivateDataTooLong,
  kInfoTooLong,
  kInvalidPathMtu,
  kInvalidQpType,
  kTooManyConnections,
  kTooManyListeners,
  kServiceInUse,
  kIdInUse,
};
[[nodiscard]] std::string_view describe(Error error);

}  // namespace rrdma::cm
