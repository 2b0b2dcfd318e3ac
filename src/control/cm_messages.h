// Messages of the connection manager between a program and rrdmad (numbers 0x100 to 0x1ff).
//
// The program names its rdma_cm ids by numbers of its own choice (`number`, never 0, never used twice);
// connections are named by the communication ID that the daemon gave out (`connection`). An incoming
// connection is first heard of in a CmEvent with the number of its listener. Everything is seen from
// the program's side: `local` is this host. Codes and enumerators are those of cm/ and of the wire.
//
//   CmBind -> CmBound           CmListen, CmRelease -> Done
//   CmConnect, CmLookUp -> CmStarted, then events    CmAccept, CmReject, CmDisconnect, ... -> Done
//   CmReady -> CmEstablished: what CmRestore tells the next daemon if this one dies
#pragma once

#include <cstdint>
#include <vector>

#include "control/messages.h"
#include "wire/cm_mad.h"

namespace rrdma::control {

constexpr MessageType cm_message(std::uint16_t index) {
  return static_cast<MessageType>(static_cast<std::uint16_t>(MessageType::kCmFirst) + index);
}

struct CmRoute {
  wire::Gid local;
  wire::Gid remote;
  std::uint32_t interface_index = 0;  // for link-local addresses
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t hop_limit = 64;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.array(self.local.octets);
    archive.array(self.remote.octets);
    archive.value(self.interface_index);
    archive.value(self.traffic_class);
    archive.value(self.service_level);
    archive.value(self.hop_limit);
  }
};

// The IP addresses and ports of a call, as the program sees them.
struct CmAddresses {
  bool present = false;
  std::uint8_t ip_version = 4;
  wire::Gid source;
  wire::Gid destination;
  std::uint16_t source_port = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.flag(self.present);
    archive.value(self.ip_version);
    archive.array(self.source.octets);
    archive.array(self.destination.octets);
    archive.value(self.source_port);
  }
};

struct CmEce {
  std::uint32_t vendor_id = 0;
  std::uint32_t options = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.vendor_id);
    archive.value(self.options);
  }
};

// What CONNECT and ACCEPT settle, and what REQ and REP say about it.
struct CmTerms {
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;  // the first that this queue pair expects
  std::uint32_t qkey = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool srq = false;
  CmEce ece;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.qpn);
    archive.value(self.psn);
    archive.value(self.qkey);
    archive.value(self.responder_resources);
    archive.value(self.initiator_depth);
    archive.value(self.retry_count);
    archive.value(self.rnr_retry_count);
    archive.flag(self.flow_control);
    archive.flag(self.srq);
    archive.nested(self.ece);
  }
};

enum class CmFamily : std::uint8_t { kIpv4, kIpv6 };

// Takes a port for an id. A zero address is the wildcard of its family; port 0 asks for a free one.
struct CmBind {
  static constexpr MessageType kType = cm_message(0x00);
  std::uint32_t number = 0;
  std::uint8_t port_space = 0;  // wire::PortSpace
  CmFamily family = CmFamily::kIpv4;
  bool reuse = false;
  bool family_only = false;
  wire::Gid address;
  std::uint16_t port = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
    archive.value(self.port_space);
    archive.enumeration(self.family, CmFamily::kIpv6);
    archive.flag(self.reuse);
    archive.flag(self.family_only);
    archive.array(self.address.octets);
    archive.value(self.port);
  }
};

struct CmBound {
  static constexpr MessageType kType = cm_message(0x01);
  std::uint16_t port = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.port);
  }
};

// Gives up the port of an id and stops listening; connections are not touched.
struct CmRelease {
  static constexpr MessageType kType = cm_message(0x02);
  std::uint32_t number = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
  }
};

// REQUIRES: the id is bound. Calls to its address and port become events from now on.
struct CmListen {
  static constexpr MessageType kType = cm_message(0x03);
  std::uint32_t number = 0;
  std::uint32_t backlog = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
    archive.value(self.backlog);
  }
};

struct CmConnect {
  static constexpr MessageType kType = cm_message(0x04);
  std::uint32_t number = 0;
  std::uint64_t service_id = 0;
  std::uint8_t qp_type = 0;  // cm::QpType
  std::uint8_t path_mtu = 0;
  std::uint8_t packet_lifetime = 0;
  std::uint64_t device_guid = 0;
  CmRoute route;
  CmAddresses addresses;
  CmTerms terms;
  std::vector<std::uint8_t> private_data;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
    archive.value(self.service_id);
    archive.value(self.qp_type);
    archive.value(self.path_mtu);
    archive.value(self.packet_lifetime);
    archive.value(self.device_guid);
    archive.nested(self.route);
    archive.nested(self.addresses);
    archive.nested(self.terms);
    archive.blob(self.private_data, wire::kPrivateOctetsMax);
  }
};

struct CmStarted {
  static constexpr MessageType kType = cm_message(0x05);
  std::uint32_t connection = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.connection);
  }
};

// Looks up a UD service (SIDR).
struct CmLookUp {
  static constexpr MessageType kType = cm_message(0x06);
  std::uint32_t number = 0;
  std::uint64_t service_id = 0;
  CmRoute route;
  CmAddresses addresses;
  std::vector<std::uint8_t> private_data;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
    archive.value(self.service_id);
    archive.nested(self.route);
    archive.nested(self.addresses);
    archive.blob(self.private_data, wire::kPrivateOctetsMax);
  }
};

struct CmAccept {
  static constexpr MessageType kType = cm_message(0x07);
  std::uint32_t connection = 0;
  std::uint64_t device_guid = 0;
  CmTerms terms;
  std::vector<std::uint8_t> private_data;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.connection);
    archive.value(self.device_guid);
    archive.nested(self.terms);
    archive.blob(self.private_data, wire::kPrivateOctetsMax);
  }
};

struct CmReject {
  static constexpr MessageType kType = cm_message(0x08);
  std::uint32_t connection = 0;
  std::uint16_t reason = 0;  // wire::RejectReason
  std::vector<std::uint8_t> private_data;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.connection);
    archive.value(self.reason);
    archive.blob(self.private_data, wire::kPrivateOctetsMax);
  }
};

// The answer to a SIDR_REQ.
struct CmReplyLookUp {
  static constexpr MessageType kType = cm_message(0x09);
  std::uint32_t connection = 0;
  std::uint8_t status = 0;  // wire::SidrStatus
  std::uint32_t qpn = 0;
  std::uint32_t qkey = 0;
  CmEce ece;
  std::vector<std::uint8_t> private_data;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.connection);
    archive.value(self.status);
    archive.value(self.qpn);
    archive.value(self.qkey);
    archive.nested(self.ece);
    archive.blob(self.private_data, wire::kPrivateOctetsMax);
  }
};

// The queue pair of the calling side is ready: sends the RTU. Reply: CmEstablished.
struct CmReady {
  static constexpr MessageType kType = cm_message(0x0a);
  std::uint32_t connection = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.connection);
  }
};

// The queue pair has received something before the RTU came.
struct CmNotify {
  static constexpr MessageType kType = cm_message(0x0b);
  std::uint32_t connection = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.connection);
  }
};

struct CmDisconnect {
  static constexpr MessageType kType = cm_message(0x0c);
  std::uint32_t connection = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.connection);
  }
};

// Says what is left to say to the peer, and forgets the connection. No event comes after the reply.
struct CmDestroy {
  static constexpr MessageType kType = cm_message(0x0d);
  std::uint32_t connection = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.connection);
  }
};

// cm::EstablishedConnection.
struct CmEstablished {
  static constexpr MessageType kType = cm_message(0x0e);
  bool present = false;
  std::uint32_t connection = 0;
  std::uint32_t remote_connection = 0;
  CmRoute route;
  bool active = false;
  std::uint8_t qp_type = 0;
  std::uint32_t local_qpn = 0;
  std::uint32_t remote_qpn = 0;
  std::uint32_t send_psn = 0;
  std::uint32_t receive_psn = 0;
  std::uint8_t path_mtu = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t ack_timeout = 0;
  std::uint8_t max_cm_retries = 0;
  std::int64_t response_timeout_ns = 0;
  std::uint64_t transaction_id = 0;
  std::uint64_t device_guid = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.flag(self.present);
    archive.value(self.connection);
    archive.value(self.remote_connection);
    archive.nested(self.route);
    archive.flag(self.active);
    archive.value(self.qp_type);
    archive.value(self.local_qpn);
    archive.value(self.remote_qpn);
    archive.value(self.send_psn);
    archive.value(self.receive_psn);
    archive.value(self.path_mtu);
    archive.value(self.responder_resources);
    archive.value(self.initiator_depth);
    archive.value(self.retry_count);
    archive.value(self.rnr_retry_count);
    archive.value(self.ack_timeout);
    archive.value(self.max_cm_retries);
    archive.value(self.response_timeout_ns);
    archive.value(self.transaction_id);
    archive.value(self.device_guid);
  }
};

// To a daemon that did not see this connection being made. Reply: Done, or Failed if it cannot stand.
struct CmRestore {
  static constexpr MessageType kType = cm_message(0x0f);
  std::uint32_t number = 0;
  CmEstablished connection;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
    archive.nested(self.connection);
  }
};

enum class CmEventKind : std::uint8_t {
  kConnectRequest,
  kConnectReply,
  kEstablished,
  kRejected,
  kUnreachable,
  kDisconnected,
  kTimeWaitExit,
  kLookUpRequest,
  kLookUpReply,
};

// cm::QpAttributes, as far as they are not in the route and the terms.
struct CmQpAttributes {
  std::uint8_t qp_type = 0;
  std::uint8_t path_mtu = 0;
  std::uint32_t destination_qpn = 0;
  std::uint32_t send_psn = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t ack_timeout = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.qp_type);
    archive.value(self.path_mtu);
    archive.value(self.destination_qpn);
    archive.value(self.send_psn);
    archive.value(self.responder_resources);
    archive.value(self.initiator_depth);
    archive.value(self.ack_timeout);
    archive.value(self.retry_count);
    archive.value(self.rnr_retry_count);
  }
};

struct CmEvent {
  static constexpr MessageType kType = cm_message(0x20);
  CmEventKind kind = CmEventKind::kConnectRequest;
  std::uint32_t number = 0;  // of the id that called, or of the listener
  std::uint32_t connection = 0;
  // kRejected: wire::RejectReason. kDisconnected: 0, or 1 if the peer never answered. kLookUpReply: wire::SidrStatus.
  std::uint16_t status = 0;
  std::uint64_t service_id = 0;  // requests
  CmRoute route;                 // requests
  CmAddresses addresses;         // requests
  CmTerms terms;                 // of the peer: requests, kConnectReply, kLookUpReply
  CmQpAttributes attributes;     // kConnectRequest, kConnectReply
  CmEstablished established;     // kEstablished
  std::vector<std::uint8_t> private_data;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.enumeration(self.kind, CmEventKind::kLookUpReply);
    archive.value(self.number);
    archive.value(self.connection);
    archive.value(self.status);
    archive.value(self.service_id);
    archive.nested(self.route);
    archive.nested(self.addresses);
    archive.nested(self.terms);
    archive.nested(self.attributes);
    archive.nested(self.established);
    archive.blob(self.private_data, wire::kPrivateOctetsMax);
  }
};

}  // namespace rrdma::control
