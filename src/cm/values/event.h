// Events: what an Endpoint tells the owners of connections. Private data is a whole field of the message,
// zeros included: the wire does not say how much of it the peer filled.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "cm/values/private_data.h"
#include "cm/values/route.h"
#include "wire/cm_ip_header.h"
#include "wire/cm_mad.h"

namespace rrdma::cm {

// A REQ came for a listener. Answer: accept(), reject() or destroy().
struct ConnectRequest {
  ListenerId listener;
  OwnerToken listener_owner = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::optional<wire::IpCmHeader> ip;  // its 36 octets are the first ones of the private data
  std::uint64_t remote_ca_guid = 0;
  QpType qp_type = QpType::kReliable;  // of the queue pair to create here
  wire::Qpn remote_qpn;
  wire::QKey remote_qkey;
  wire::Psn remote_psn;
  std::uint8_t path_mtu = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool srq = false;
  Ece ece;
};

// A REP came. Answer: send_rtu() once the queue pair is ready, reject() or destroy().
struct ConnectReply {
  std::uint64_t remote_ca_guid = 0;
  wire::Qpn remote_qpn;
  wire::QKey remote_qkey;
  wire::Psn remote_psn;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;
  std::uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool srq = false;
  Ece ece;
};

// Passive side: the RTU came, or notify_established() was called first.
struct Established {};

// A REJ came, or a REP that had to be refused. The connection is closed, or about to leave TIMEWAIT.
struct Rejected {
  wire::RejectReason reason{};
  bool was_established = false;
  wire::AdditionalInfo info{};
  std::uint8_t info_length = 0;
};

// No answer to the message in spite of all retries: kReq, kRep or kSidrReq.
struct Unreachable {
  wire::CmAttribute unanswered{};
};

enum class DisconnectCause : std::uint8_t {
  kPeerAsked,     // a DREQ came; answer with disconnect()
  kPeerAnswered,  // the DREP to our DREQ came, or a REJ or DREQ that means the same
  kNoAnswer,      // our DREQ was never answered
};
struct Disconnected {
  DisconnectCause cause{};
};

// The queue pair may be used again.
struct TimeWaitExit {};

// A SIDR_REQ came for a listener. Answer: reply_lookup() or destroy().
struct LookupRequest {
  ListenerId listener;
  OwnerToken listener_owner = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::optional<wire::IpCmHeader> ip;  // its 36 octets are the first ones of the private data
};

// The SIDR_REP came.
struct LookupReply {
  wire::SidrStatus status{};
  wire::Qpn qpn;
  wire::QKey qkey;
  Ece ece;
  wire::AdditionalInfo info{};
  std::uint8_t info_length = 0;
};

using EventDetails = std::variant<ConnectRequest, ConnectReply, Established, Rejected, Unreachable,
                                  Disconnected, TimeWaitExit, LookupRequest, LookupReply>;

struct Event {
  ConnectionId id;
  OwnerToken owner = 0;  // of the connection; a requested one begins with its listener's owner
  EventDetails details;
  PrivateData private_data;
};

[[nodiscard]] std::string_view event_name(const EventDetails& details);

}  // namespace rrdma::cm
