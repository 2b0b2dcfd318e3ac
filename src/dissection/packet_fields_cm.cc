// The field tree of management datagrams and of the connection manager's messages. See packet_fields.h.
#include "base/format.h"
#include "dissection/packet_fields.h"
#include "wire/address_text.h"
#include "wire/cm_ip_header.h"

namespace rrdma::wire {
namespace {

constexpr std::string_view kLocalIdMeaning = "The sender's name for its half of the connection.";
constexpr std::string_view kRemoteIdMeaning =
    "The receiver's name for its half, as it gave it; 0: not known yet.";
constexpr std::string_view kPrivateMeaning = "What the program gave along with the message.";

void add_ids(Field& group, CommId local, CommId remote) {
  group.add_hex("local_comm_id", "Local communication ID", local.value, 8, kLocalIdMeaning);
  group.add_hex("remote_comm_id", "Remote communication ID", remote.value, 8, kRemoteIdMeaning);
}

std::string_view port_space_name(PortSpace space) {
  switch (space) {
    case PortSpace::kTcp: return "TCP";
    case PortSpace::kUdp: return "UDP";
    case PortSpace::kIb: return "IB";
  }
  return "";
}

std::string service_text(std::uint64_t service_id) {
  const auto service = ip_service_of(service_id);
  if (!service) return formatted("0x{:016x}", service_id);
  return formatted("0x{:016x} (RDMA_PS_{} port {})", service_id, port_space_name(service->port_space),
                   service->port);
}

void add_service(Field& group, std::uint64_t service_id) {
  group.add("service_id", "Service ID", formatted("0x{:016x}", service_id), service_text(service_id),
            "What is called: for rdma_cm a port space and a port.");
  if (const auto service = ip_service_of(service_id)) {
    group.add_number("service_port", "Service port", service->port,
                     "The port that the other side listens on.");
  }
}

// Private data up to its last nonzero byte: the message does not carry its length.
void add_private_data(Field& group, Octets data) {
  while (!data.empty() && data.back() == 0) data = data.first(data.size() - 1);
  std::string hex;
  for (const auto octet : data) hex += formatted("{:02x}", octet);
  group.add("private_data", "Private data", hex, hex.empty() ? "all zero" : hex, kPrivateMeaning);
}

// The private data of a REQ or SIDR_REQ to an IP port begins with the caller's address.
void add_called_data(Field& group, std::uint64_t service_id, Octets data) {
  if (ip_service_of(service_id)) {
    if (const auto header = parse_ip_cm_header(data)) {
      Field& ip = group.add_group(
          "ip_cm", "IP-CM header", "36 bytes",
          "Tells the listener who calls, in IP terms: RDMA_CM programs see it as the peer's address.");
      ip.add_text("source", "Source address", to_text(header->source), "The caller.");
      ip.add_number("source_port", "Source port", header->source_port, "The caller's port.");
      ip.add_text("destination", "Destination address", to_text(header->destination),
                  "The address that was called.");
      data = data.subspan(kIpCmHeaderOctets);
    }
  }
  add_private_data(group, data);
}

void add_timeout(Field& group, std::string_view key, std::string_view label, std::uint8_t code,
                 std::string_view meaning) {
  group.add(key, label, std::uint32_t{code}, formatted("{} ({})", code, timeout_text(code)), meaning);
}

void add_path(Field& group, const CmPath& path) {
  group.add_text("local_gid", "Local GID", to_text(path.local_gid), "Where the sender can be reached.");
  group.add_text("remote_gid", "Remote GID", to_text(path.remote_gid), "Where it reaches the receiver.");
  group.add_number("local_lid", "Local LID", path.local_lid, "InfiniBand only; 65535 on RoCE.");
  group.add_number("remote_lid", "Remote LID", path.remote_lid, "InfiniBand only; 65535 on RoCE.");
  group.add_hex("flow_label", "Flow label", path.flow_label, 5, "Entropy for the path.");
  group.add_number("packet_rate", "Packet rate code", path.packet_rate,
                   "The fastest rate that the path bears.");
  group.add_number("traffic_class", "Traffic class", path.traffic_class, "DSCP and ECN of the packets.");
  group.add_number("hop_limit", "Hop limit", path.hop_limit, "Of the packets.");
  group.add_number("service_level", "Service level", path.service_level, "Priority.");
  group.add_flag("subnet_local", "Subnet local", path.subnet_local, "No router between the two.");
  add_timeout(group, "ack_timeout", "Local ACK timeout", path.local_ack_timeout,
              "How long the receiver shall wait for an ACK before it sends again.");
}

void add_message(Field& group, const CmReq& req) {
  group.add_hex("local_comm_id", "Local communication ID", req.local_comm_id.value, 8, kLocalIdMeaning);
  add_service(group, req.service_id);
  group.add_hex("local_ca_guid", "Local CA GUID", req.local_ca_guid, 16, "Names the sender's device.");
  group.add_hex("local_qkey", "Local Q_Key", req.local_qkey.value, 8, "Not used by RC and UC.");
  group.add_hex("local_qpn", "Local QPN", req.local_qpn.value, 6,
                "The sender's QP: what the other side will write into its BTHs.");
  group.add_number("starting_psn", "Starting PSN", req.starting_psn.value,
                   "The first PSN that the sender will use.");
  group.add_number("responder_resources", "Responder resources", req.responder_resources,
                   "How many READs and ATOMICs at a time the sender can answer.");
  group.add_number("initiator_depth", "Initiator depth", req.initiator_depth,
                   "How many it will have outstanding.");
  group.add_number("transport", "Transport service", static_cast<std::uint32_t>(req.transport),
                   "0 RC, 1 UC, 3 XRC.");
  group.add("path_mtu", "Path MTU", std::uint32_t{req.path_mtu},
            req.path_mtu >= 1 && req.path_mtu <= 5
                ? formatted("{} ({} bytes)", req.path_mtu, 128 << req.path_mtu)
                : formatted("{} (reserved)", req.path_mtu),
            "The largest payload of one packet.");
  group.add_number("retry_count", "Retry count", req.retry_count,
                   "How often a lost packet is sent again before the connection ends.");
  group.add_number("rnr_retry_count", "RNR retry count", req.rnr_retry_count,
                   "The same for \"receiver not ready\"; 7: for ever.");
  add_timeout(group, "remote_cm_response_timeout", "Remote CM response timeout",
              req.remote_cm_response_timeout, "How soon the receiver of this message shall answer.");
  add_timeout(group, "local_cm_response_timeout", "Local CM response timeout", req.local_cm_response_timeout,
              "How soon the sender will answer.");
  group.add_number("max_cm_retries", "Max CM retries", req.max_cm_retries,
                   "How often this message may be sent again.");
  group.add_hex("pkey", "P_Key", req.partition_key, 4, "The partition of the connection.");
  group.add_flag("srq", "SRQ", req.srq, "The sender's QP takes receive buffers from a shared queue.");
  group.add_flag("end_to_end_flow_control", "End-to-end flow control", req.end_to_end_flow_control,
                 "The sender tells credits in its AETHs.");
  add_path(group.add_group("primary_path", "Primary path", "", "How the two reach each other."), req.primary);
  if (req.alternate != CmPath{}) {
    add_path(
        group.add_group("alternate_path", "Alternate path", "", "What to use when the primary path fails."),
        req.alternate);
  }
  add_called_data(group, req.service_id, req.private_data);
}

void add_kind(Field& group, CmMessageKind kind) {
  constexpr std::string_view kNames[] = {"REQ", "REP", "another message"};
  group.add("about", "About", std::uint32_t{static_cast<std::uint8_t>(kind)},
            std::string(kNames[static_cast<std::size_t>(kind)]), "Which message it answers.");
}

void add_message(Field& group, const CmMra& mra) {
  add_ids(group, mra.local_comm_id, mra.remote_comm_id);
  add_kind(group, mra.kind);
  add_timeout(group, "service_timeout", "Service timeout", mra.service_timeout,
              "How long the other side shall wait before it asks again.");
  add_private_data(group, mra.private_data);
}

void add_message(Field& group, const CmRej& rej) {
  add_ids(group, rej.local_comm_id, rej.remote_comm_id);
  add_kind(group, rej.kind);
  group.add("reason", "Reason", std::uint32_t{static_cast<std::uint16_t>(rej.reason)},
            formatted("{} ({})", static_cast<unsigned>(rej.reason), describe(rej.reason)),
            "Why the connection was refused; 28 comes from the program itself, 8 means that nobody listens.");
  group.add_number("info_octets", "Additional information", rej.info_length,
                   "Bytes that explain the reason.");
  add_private_data(group, rej.private_data);
}

void add_message(Field& group, const CmRep& rep) {
  add_ids(group, rep.local_comm_id, rep.remote_comm_id);
  group.add_hex("local_qkey", "Local Q_Key", rep.local_qkey.value, 8, "Not used by RC and UC.");
  group.add_hex("local_qpn", "Local QPN", rep.local_qpn.value, 6,
                "The sender's QP: what the caller will write into its BTHs.");
  group.add_number("starting_psn", "Starting PSN", rep.starting_psn.value,
                   "The first PSN that the sender will use.");
  group.add_number("responder_resources", "Responder resources", rep.responder_resources,
                   "How many READs and ATOMICs at a time the sender can answer.");
  group.add_number("initiator_depth", "Initiator depth", rep.initiator_depth,
                   "How many it will have outstanding.");
  add_timeout(group, "target_ack_delay", "Target ACK delay", rep.target_ack_delay,
              "How long its ACKs may take.");
  group.add_number("failover_accepted", "Failover accepted", rep.failover_accepted,
                   "Whether the alternate path was taken.");
  group.add_flag("end_to_end_flow_control", "End-to-end flow control", rep.end_to_end_flow_control,
                 "The sender tells credits in its AETHs.");
  group.add_number("rnr_retry_count", "RNR retry count", rep.rnr_retry_count,
                   "How often to try again when it is not ready; 7: for ever.");
  group.add_flag("srq", "SRQ", rep.srq, "The sender's QP takes receive buffers from a shared queue.");
  group.add_hex("local_ca_guid", "Local CA GUID", rep.local_ca_guid, 16, "Names the sender's device.");
  add_private_data(group, rep.private_data);
}

void add_message(Field& group, const CmRtu& rtu) {
  add_ids(group, rtu.local_comm_id, rtu.remote_comm_id);
  add_private_data(group, rtu.private_data);
}

void add_message(Field& group, const CmDreq& dreq) {
  add_ids(group, dreq.local_comm_id, dreq.remote_comm_id);
  group.add_hex("remote_qpn", "Remote QPN", dreq.remote_qpn.value, 6,
                "The receiver's QP of the connection that ends.");
  add_private_data(group, dreq.private_data);
}

void add_message(Field& group, const CmDrep& drep) {
  add_ids(group, drep.local_comm_id, drep.remote_comm_id);
  add_private_data(group, drep.private_data);
}

void add_message(Field& group, const CmSidrReq& req) {
  group.add_hex("request_id", "Request ID", req.request_id.value, 8, "Ties the answer to the question.");
  group.add_hex("pkey", "P_Key", req.partition_key, 4, "The partition.");
  add_service(group, req.service_id);
  add_called_data(group, req.service_id, req.private_data);
}

void add_message(Field& group, const CmSidrRep& rep) {
  group.add_hex("request_id", "Request ID", rep.request_id.value, 8, "Ties the answer to the question.");
  group.add("status", "Status", std::uint32_t{static_cast<std::uint8_t>(rep.status)},
            formatted("{} ({})", static_cast<unsigned>(rep.status), describe(rep.status)), "0: granted.");
  group.add_hex("qpn", "QPN", rep.qpn.value, 6, "The UD QP that serves the caller.");
  add_service(group, rep.service_id);
  group.add_hex("qkey", "Q_Key", rep.qkey.value, 8, "What the caller must write into its DETHs.");
  add_private_data(group, rep.private_data);
}

void add_message(Field& group, const CmLap& lap) {
  add_ids(group, lap.local_comm_id, lap.remote_comm_id);
  group.add_hex("remote_qpn", "Remote QPN", lap.remote_qpn.value, 6, "The receiver's QP.");
  add_timeout(group, "remote_cm_response_timeout", "Remote CM response timeout",
              lap.remote_cm_response_timeout, "How soon the receiver of this message shall answer.");
  add_path(group.add_group("alternate_path", "Alternate path", "", "The path to be loaded."), lap.alternate);
  add_private_data(group, lap.private_data);
}

void add_message(Field& group, const CmApr& apr) {
  add_ids(group, apr.local_comm_id, apr.remote_comm_id);
  group.add("status", "Status", std::uint32_t{static_cast<std::uint8_t>(apr.status)},
            formatted("{} ({})", static_cast<unsigned>(apr.status), describe(apr.status)), "0: loaded.");
  add_private_data(group, apr.private_data);
}

std::string_view message_meaning(CmAttribute attribute) {
  switch (attribute) {
    case CmAttribute::kReq: return "Request: the caller asks for a connection and tells its QP.";
    case CmAttribute::kMra: return "Message receipt acknowledgement: \"I got it, wait a little\".";
    case CmAttribute::kRej: return "Reject: the connection is refused, with the reason.";
    case CmAttribute::kRep: return "Reply: the listener accepts and tells its QP.";
    case CmAttribute::kRtu: return "Ready to use: the caller is ready too; the connection stands.";
    case CmAttribute::kDreq: return "Disconnect request: one side ends the connection.";
    case CmAttribute::kDrep: return "Disconnect reply: the other side agrees.";
    case CmAttribute::kSidrReq: return "Service ID resolution request: which UD QP serves this service?";
    case CmAttribute::kSidrRep: return "Service ID resolution reply: this one, with that Q_Key.";
    case CmAttribute::kLap: return "Load alternate path.";
    case CmAttribute::kApr: return "Alternate path response.";
  }
  return "";
}

}  // namespace

void add_mad_fields(Field& parent, const MadHeader& header) {
  Field& group = parent.add_group("mad", "MAD", "24 bytes",
                                  "Every management datagram begins with this; it goes from QP 1 to QP 1.");
  group.add_hex("class", "Management class", header.management_class, 2, "0x07 is connection management.");
  group.add_number("class_version", "Class version", header.class_version, "2 for connection management.");
  group.add_hex("method", "Method", header.method, 2, "0x03 is Send.");
  group.add_hex("status", "Status", header.status, 4, "0: no error.");
  group.add_hex("transaction_id", "Transaction ID", header.transaction_id, 16, "Ties answers to questions.");
  group.add_hex("attribute_id", "Attribute ID", header.attribute_id, 4, "Which message follows.");
  group.add_hex("attribute_modifier", "Attribute modifier", header.attribute_modifier, 8,
                "Depends on the message.");
}

void add_cm_fields(Field& parent, const CmMad& mad) {
  const CmAttribute attribute = attribute_of(mad.message);
  Field& group =
      parent.add_group("cm", "CM", std::string(cm_message_name(attribute)), message_meaning(attribute));
  group.add_text("message", "Message", std::string(cm_message_name(attribute)), "Its name.");
  std::visit([&group](const auto& message) { add_message(group, message); }, mad.message);
}

}  // namespace rrdma::wire
