// The encoding of the connection manager's values (cm/values/) in control messages: one list of fields for
// each, used in both directions. Constraints on values are checked here, at the edge, so that no later code
// sees an invalid address.
#pragma once

#include "cm/values/established.h"
#include "cm/values/event.h"
#include "cm/values/parameters.h"
#include "cm/values/qp_attributes.h"
#include "control/codec.h"

namespace rrdma::control {

template <>
struct LastOf<cm::QpType> {
  static constexpr cm::QpType kLast = cm::QpType::kXrcTarget;
};
template <>
struct LastOf<cm::DisconnectCause> {
  static constexpr cm::DisconnectCause kLast = cm::DisconnectCause::kNoAnswer;
};

template <>
struct FieldsOf<wire::Gid> {
  static void list(auto& archive, auto& gid) { archive.array(gid.octets); }
};

// 24-bit numbers.
struct FieldsOf24 {
  static void list(auto& archive, auto& number) {
    archive(number.value);
    archive.require(number.value <= wire::kMask24);
  }
};
template <>
struct FieldsOf<wire::Qpn> : FieldsOf24 {};
template <>
struct FieldsOf<wire::Psn> : FieldsOf24 {};

// Numbers without a constraint.
struct FieldsOfNumber {
  static void list(auto& archive, auto& number) { archive(number.value); }
};
template <>
struct FieldsOf<wire::QKey> : FieldsOfNumber {};
template <>
struct FieldsOf<wire::CommId> : FieldsOfNumber {};

template <>
struct FieldsOf<Duration> {
  static void list(auto& archive, auto& duration) { archive(duration.ns); }
};

template <>
struct FieldsOf<cm::PrivateData> {
  static void list(auto& archive, auto& data) {
    archive(data.length);
    archive.require(data.length <= data.octets.size());
    archive.array(data.octets);
  }
};

// The addresses of a call: two of the same IP version.
template <>
struct FieldsOf<wire::IpCmHeader> {
  static void list(auto& archive, auto& header) {
    archive.enumeration(header.version, wire::IpVersion::kIpv6);
    archive(header.source_port, header.source, header.destination);
    const bool ipv4 = header.version == wire::IpVersion::kIpv4;
    archive.require(ipv4 || header.version == wire::IpVersion::kIpv6);
    archive.require(!ipv4 || (header.source.is_ipv4() && header.destination.is_ipv4()));
  }
};

template <>
struct FieldsOf<cm::Ece> {
  static void list(auto& archive, auto& ece) { archive(ece.vendor_id, ece.options); }
};

// The daemon determines flow label and partition key.
template <>
struct FieldsOf<cm::Route> {
  static void list(auto& archive, auto& route) {
    archive(route.local, route.remote, route.interface_index, route.traffic_class, route.hop_limit,
            route.service_level);
  }
};

// The daemon determines owner and timeouts.
template <>
struct FieldsOf<cm::ConnectParameters> {
  static void list(auto& archive, auto& p) {
    archive(p.route, p.service_id, p.ip, p.qp_type, p.qpn, p.starting_psn, p.path_mtu, p.responder_resources,
            p.initiator_depth, p.retry_count, p.rnr_retry_count, p.flow_control, p.srq, p.packet_lifetime,
            p.local_ca_guid, p.ece, p.private_data);
  }
};

template <>
struct FieldsOf<cm::LookupParameters> {
  static void list(auto& archive, auto& p) { archive(p.route, p.service_id, p.ip, p.private_data); }
};

template <>
struct FieldsOf<cm::AcceptParameters> {
  static void list(auto& archive, auto& p) {
    archive(p.qpn, p.starting_psn, p.responder_resources, p.initiator_depth, p.rnr_retry_count,
            p.flow_control, p.srq, p.local_ca_guid, p.ece, p.private_data);
  }
};

// The daemon adds additional information.
template <>
struct FieldsOf<cm::RejectParameters> {
  static void list(auto& archive, auto& p) {
    archive.number(p.reason);
    archive(p.private_data);
  }
};
template <>
struct FieldsOf<cm::LookupReplyParameters> {
  static void list(auto& archive, auto& p) {
    archive.number(p.status);
    archive(p.qpn, p.qkey, p.ece, p.private_data);
  }
};

template <>
struct FieldsOf<cm::QpAttributes> {
  static void list(auto& archive, auto& a) {
    archive(a.qp_type, a.route, a.remote_read_and_atomic, a.path_mtu, a.destination_qpn, a.receive_psn,
            a.max_destination_reads, a.min_rnr_timer, a.send_psn, a.timeout, a.retry_count, a.rnr_retry_count,
            a.max_reads);
  }
};

template <>
struct FieldsOf<cm::EstablishedConnection> {
  static void list(auto& archive, auto& c) {
    archive(c.id, c.remote_id, c.route, c.active, c.qp_type, c.local_qpn, c.remote_qpn, c.send_psn,
            c.receive_psn, c.path_mtu, c.responder_resources, c.initiator_depth, c.retry_count,
            c.rnr_retry_count, c.ack_timeout, c.max_cm_retries, c.response_timeout, c.transaction_id,
            c.local_ca_guid);
  }
};

// ---- events; the message names the listener ----

template <>
struct FieldsOf<cm::ConnectRequest> {
  static void list(auto& archive, auto& r) {
    archive(r.route, r.service_id, r.ip, r.remote_ca_guid, r.qp_type, r.remote_qpn, r.remote_qkey,
            r.remote_psn, r.path_mtu, r.responder_resources, r.initiator_depth, r.retry_count,
            r.rnr_retry_count, r.flow_control, r.srq, r.ece);
  }
};
template <>
struct FieldsOf<cm::ConnectReply> {
  static void list(auto& archive, auto& r) {
    archive(r.remote_ca_guid, r.remote_qpn, r.remote_qkey, r.remote_psn, r.responder_resources,
            r.initiator_depth, r.target_ack_delay, r.rnr_retry_count, r.flow_control, r.srq, r.ece);
  }
};
template <>
struct FieldsOf<cm::Rejected> {
  static void list(auto& archive, auto& r) {
    archive.number(r.reason);
    archive(r.was_established, r.info_length);
    archive.array(r.info);
  }
};
template <>
struct FieldsOf<cm::Unreachable> {
  static void list(auto& archive, auto& u) { archive.number(u.unanswered); }
};
template <>
struct FieldsOf<cm::Disconnected> {
  static void list(auto& archive, auto& d) { archive(d.cause); }
};
template <>
struct FieldsOf<cm::LookupRequest> {
  static void list(auto& archive, auto& r) { archive(r.route, r.service_id, r.ip); }
};
template <>
struct FieldsOf<cm::LookupReply> {
  static void list(auto& archive, auto& r) {
    archive.number(r.status);
    archive(r.qpn, r.qkey, r.ece, r.info_length);
    archive.array(r.info);
  }
};
struct NoFields {
  static void list(auto&, auto&) {}
};
template <>
struct FieldsOf<cm::Established> : NoFields {};
template <>
struct FieldsOf<cm::TimeWaitExit> : NoFields {};

template <>
struct FieldsOf<cm::Event> {
  static void list(auto& archive, auto& event) { archive(event.id, event.details, event.private_data); }
};

}  // namespace rrdma::control
