// Events from an Endpoint to the owners of connections. Private data is the whole field of the message, zeros
// included: the wire does not carry the length that the peer filled.
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

// A listener received a REQ. Answer with accept(), reject() or destroy().
struct ConnectRequest {
  ListenerId listener;
  OwnerToken listener_owner = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::optional<wire::IpCmHeader> ip;  // its 36 bytes are the first ones of the private data
  std::uint64_t remote_ca_guid = 0;
  QpType qp_type = QpType::kReliable;  // of the queue pair to create on this side
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

// A REP arrived. Answer with send_rtu() once the queue pair is ready, or with reject() or destroy().
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

// Passive side: the RTU arrived, or notify_established() was called first.
struct Established {};

// A REJ arrived, or a REP that had to be refused. The connection is closed, or in TIMEWAIT.
struct Rejected {
  wire::RejectReason reason{};
  bool was_established = false;
  wire::AdditionalInfo info{};
  std::uint8_t info_length = 0;
};

// The message was never answered despite all retries: kReq, kRep or kSidrReq.
struct Unreachable {
  wire::CmAttribute unanswered{};
};

enum class DisconnectCause : std::uint8_t {
  kPeerAsked,     // a DREQ arrived; answer with disconnect()
  kPeerAnswered,  // the DREP to our DREQ arrived, or an equivalent REJ or DREQ
  kNoAnswer,      // our DREQ was never answered
};
struct Disconnected {
  DisconnectCause cause{};
};

// The queue pair may be reused.
struct TimeWaitExit {};

// A listener received a SIDR_REQ. Answer with reply_lookup() or destroy().
struct LookupRequest {
  ListenerId listener;
  OwnerToken listener_owner = 0;
  Route route;
  std::uint64_t service_id = 0;
  std::optional<wire::IpCmHeader> ip;  // its 36 bytes are the first ones of the private data
};

// The SIDR_REP arrived.
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
  OwnerToken owner = 0;  // of the connection; for a new request, the listener's owner
  EventDetails details;
  PrivateData private_data;
};

[[nodiscard]] std::string_view event_name(const EventDetails& details);

}  // namespace rrdma::cm
