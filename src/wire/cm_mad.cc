// Each layout() states the position of the fields of one message. Reader and Writer walk it in opposite
// directions, so that parsing and emitting cannot drift apart. Bytes count from the end of the MAD header,
// bits from the most significant one.
#include "wire/cm_mad.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace rrdma::wire {
namespace {

class Reader {
 public:
  template <typename T>
  using Ref = T&;

  explicit Reader(Octets body) : body_(body) {}

  template <typename T>
  void bits(std::size_t octet, unsigned bit, unsigned width, T& field) {
    field = static_cast<T>(load_bits(body_, octet, bit, width));
  }
  template <typename T>
  void number(std::size_t octet, unsigned width, T& field) {
    field = T{load_bits(body_, octet, 0, width)};
  }
  void u64(std::size_t octet, std::uint64_t& field) { field = load_be64(body_.data() + octet); }
  template <std::size_t N>
  void array(std::size_t octet, std::array<std::uint8_t, N>& field) {
    std::copy_n(body_.begin() + static_cast<std::ptrdiff_t>(octet), N, field.begin());
  }
  // A number split into pieces of 8 and 16 bits, most significant first.
  template <typename... Places>
  void split(std::uint32_t& field, Places... places) {
    field = 0;
    ((field = field << places.width | load_bits(body_, places.octet, 0, places.width)), ...);
  }

 private:
  Octets body_;
};

class Writer {
 public:
  template <typename T>
  using Ref = const T&;

  explicit Writer(MutableOctets body) : body_(body) {}

  template <typename T>
  void bits(std::size_t octet, unsigned bit, unsigned width, const T& field) {
    store_bits(body_, octet, bit, width, static_cast<std::uint32_t>(field));
  }
  template <typename T>
  void number(std::size_t octet, unsigned width, const T& field) {
    store_bits(body_, octet, 0, width, field.value);
  }
  void u64(std::size_t octet, const std::uint64_t& field) { store_be64(body_.data() + octet, field); }
  template <std::size_t N>
  void array(std::size_t octet, const std::array<std::uint8_t, N>& field) {
    std::copy(field.begin(), field.end(), body_.begin() + static_cast<std::ptrdiff_t>(octet));
  }
  template <typename... Places>
  void split(const std::uint32_t& field, Places... places) {
    unsigned shift = (places.width + ...);
    RRDMA_ASSERT(std::uint64_t{field} >> shift == 0);
    ((shift -= places.width,
      store_bits(body_, places.octet, 0, places.width, field >> shift & ((1u << places.width) - 1))),
     ...);
  }

 private:
  MutableOctets body_;
};

struct Place {
  std::size_t octet;
  unsigned width;
};

template <typename Codec, typename T>
using Ref = typename Codec::template Ref<T>;

// The two comm IDs at the start of most messages.
template <typename Codec, typename Message>
void layout_comm_ids(Codec& c, Message& m) {
  c.number(0, 32, m.local_comm_id);
  c.number(4, 32, m.remote_comm_id);
}

// A path within a REQ: 44 bytes from `at`.
template <typename Codec>
void layout_req_path(Codec& c, std::size_t at, Ref<Codec, CmPath> p) {
  c.bits(at, 0, 16, p.local_lid);
  c.bits(at + 2, 0, 16, p.remote_lid);
  c.array(at + 4, p.local_gid.octets);
  c.array(at + 20, p.remote_gid.octets);
  c.bits(at + 36, 0, 20, p.flow_label);
  c.bits(at + 39, 2, 6, p.packet_rate);
  c.bits(at + 40, 0, 8, p.traffic_class);
  c.bits(at + 41, 0, 8, p.hop_limit);
  c.bits(at + 42, 0, 4, p.service_level);
  c.bits(at + 42, 4, 1, p.subnet_local);
  c.bits(at + 43, 0, 5, p.local_ack_timeout);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmReq> m) {
  c.number(0, 32, m.local_comm_id);
  c.bits(5, 0, 24, m.vendor_id);
  c.u64(8, m.service_id);
  c.u64(16, m.local_ca_guid);
  c.bits(28, 0, 32, m.local_qkey.value);
  c.number(32, 24, m.local_qpn);
  c.bits(35, 0, 8, m.responder_resources);
  c.bits(36, 0, 24, m.local_eecn);
  c.bits(39, 0, 8, m.initiator_depth);
  c.bits(40, 0, 24, m.remote_eecn);
  c.bits(43, 0, 5, m.remote_cm_response_timeout);
  c.bits(43, 5, 2, m.transport);
  c.bits(43, 7, 1, m.end_to_end_flow_control);
  c.number(44, 24, m.starting_psn);
  c.bits(47, 0, 5, m.local_cm_response_timeout);
  c.bits(47, 5, 3, m.retry_count);
  c.bits(48, 0, 16, m.partition_key);
  c.bits(50, 0, 4, m.path_mtu);
  c.bits(50, 4, 1, m.rdc_exists);
  c.bits(50, 5, 3, m.rnr_retry_count);
  c.bits(51, 0, 4, m.max_cm_retries);
  c.bits(51, 4, 1, m.srq);
  c.bits(51, 5, 3, m.extended_transport);
  layout_req_path<Codec>(c, 52, m.primary);
  layout_req_path<Codec>(c, 96, m.alternate);
  c.bits(139, 5, 1, m.sap_supported);
  c.array(140, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmMra> m) {
  layout_comm_ids(c, m);
  c.bits(8, 0, 2, m.kind);
  c.bits(9, 0, 5, m.service_timeout);
  c.array(10, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmRej> m) {
  layout_comm_ids(c, m);
  c.bits(8, 0, 2, m.kind);
  c.bits(9, 0, 7, m.info_length);
  c.bits(10, 0, 16, m.reason);
  c.array(12, m.info);
  c.array(84, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmRep> m) {
  layout_comm_ids(c, m);
  c.bits(8, 0, 32, m.local_qkey.value);
  c.number(12, 24, m.local_qpn);
  c.bits(16, 0, 24, m.local_eecn);
  c.number(20, 24, m.starting_psn);
  c.split(m.vendor_id, Place{15, 8}, Place{19, 8}, Place{23, 8});
  c.bits(24, 0, 8, m.responder_resources);
  c.bits(25, 0, 8, m.initiator_depth);
  c.bits(26, 0, 5, m.target_ack_delay);
  c.bits(26, 5, 2, m.failover_accepted);
  c.bits(26, 7, 1, m.end_to_end_flow_control);
  c.bits(27, 0, 3, m.rnr_retry_count);
  c.bits(27, 3, 1, m.srq);
  c.u64(28, m.local_ca_guid);
  c.array(36, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmRtu> m) {
  layout_comm_ids(c, m);
  c.array(8, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmDreq> m) {
  layout_comm_ids(c, m);
  c.number(8, 24, m.remote_qpn);
  c.array(12, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmDrep> m) {
  layout_comm_ids(c, m);
  c.array(8, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmSidrReq> m) {
  c.number(0, 32, m.request_id);
  c.bits(4, 0, 16, m.partition_key);
  c.u64(8, m.service_id);
  c.array(16, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmSidrRep> m) {
  c.number(0, 32, m.request_id);
  c.bits(4, 0, 8, m.status);
  c.bits(5, 0, 8, m.info_length);
  c.number(8, 24, m.qpn);
  c.split(m.vendor_id, Place{6, 16}, Place{11, 8});
  c.u64(12, m.service_id);
  c.bits(20, 0, 32, m.qkey.value);
  c.array(24, m.info);
  c.array(96, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmLap> m) {
  layout_comm_ids(c, m);
  c.number(12, 24, m.remote_qpn);
  c.bits(15, 0, 5, m.remote_cm_response_timeout);
  // The same fields as in a REQ, in another order.
  c.bits(20, 0, 16, m.alternate.local_lid);
  c.bits(22, 0, 16, m.alternate.remote_lid);
  c.array(24, m.alternate.local_gid.octets);
  c.array(40, m.alternate.remote_gid.octets);
  c.bits(56, 0, 20, m.alternate.flow_label);
  c.bits(59, 0, 8, m.alternate.traffic_class);
  c.bits(60, 0, 8, m.alternate.hop_limit);
  c.bits(61, 2, 6, m.alternate.packet_rate);
  c.bits(62, 0, 4, m.alternate.service_level);
  c.bits(62, 4, 1, m.alternate.subnet_local);
  c.bits(63, 0, 5, m.alternate.local_ack_timeout);
  c.array(64, m.private_data);
}

template <typename Codec>
void layout(Codec& c, Ref<Codec, CmApr> m) {
  layout_comm_ids(c, m);
  c.bits(8, 0, 8, m.info_length);
  c.bits(9, 0, 8, m.status);
  c.array(12, m.info);
  c.array(84, m.private_data);
}

// Rejects field values that no message may have; cm/ judges everything else.
template <typename Message>
bool known_kind(const Message& message) {
  if constexpr (requires { message.kind; }) {
    return message.kind <= CmMessageKind::kOther;
  } else {
    return true;
  }
}

template <typename Message>
bool info_fits(const Message& message) {
  if constexpr (requires { message.info_length; }) {
    return message.info_length <= kAdditionalInfoOctets;
  } else {
    return true;
  }
}

template <typename Message>
Result<CmMessage, MadError> parse_message(Octets body) {
  Message message;
  Reader reader(body);
  layout<Reader>(reader, message);
  if (!known_kind(message)) return Failure{MadError::kUnknownMessageKind};
  if (!info_fits(message)) return Failure{MadError::kInfoTooLong};
  return CmMessage(message);
}

constexpr auto kFirstAttribute = static_cast<std::uint16_t>(CmAttribute::kReq);

// Attribute IDs follow the order of the alternatives of CmMessage.
template <std::size_t... I>
Result<CmMessage, MadError> parse_alternative(std::size_t index, Octets body, std::index_sequence<I...>) {
  using Parse = Result<CmMessage, MadError> (*)(Octets);
  static constexpr Parse kParse[] = {&parse_message<std::variant_alternative_t<I, CmMessage>>...};
  return kParse[index](body);
}

static_assert(std::variant_size_v<CmMessage> ==
              static_cast<std::size_t>(CmAttribute::kApr) - kFirstAttribute + 1);

}  // namespace

CmAttribute attribute_of(const CmMessage& message) {
  return static_cast<CmAttribute>(kFirstAttribute + message.index());
}

std::string_view cm_message_name(CmAttribute attribute) {
  switch (attribute) {
    case CmAttribute::kReq: return "REQ";
    case CmAttribute::kMra: return "MRA";
    case CmAttribute::kRej: return "REJ";
    case CmAttribute::kRep: return "REP";
    case CmAttribute::kRtu: return "RTU";
    case CmAttribute::kDreq: return "DREQ";
    case CmAttribute::kDrep: return "DREP";
    case CmAttribute::kSidrReq: return "SIDR_REQ";
    case CmAttribute::kSidrRep: return "SIDR_REP";
    case CmAttribute::kLap: return "LAP";
    case CmAttribute::kApr: return "APR";
  }
  return "unknown";
}

Result<CmMad, MadError> parse_cm_mad(Octets mad) {
  const auto header = parse_mad_header(mad);
  if (!header.ok()) return Failure{header.error()};
  if (header->management_class != static_cast<std::uint8_t>(ManagementClass::kConnectionManagement)) {
    return Failure{MadError::kWrongClass};
  }
  if (header->class_version != kCmClassVersion) return Failure{MadError::kUnknownClassVersion};
  if (header->method != static_cast<std::uint8_t>(MadMethod::kSend)) return Failure{MadError::kWrongMethod};
  const std::size_t index = std::size_t{header->attribute_id} - kFirstAttribute;
  if (index >= std::variant_size_v<CmMessage>) return Failure{MadError::kUnknownAttribute};
  auto message = parse_alternative(index, mad.subspan(kMadHeaderOctets),
                                   std::make_index_sequence<std::variant_size_v<CmMessage>>());
  if (!message.ok()) return Failure{message.error()};
  return CmMad{.transaction_id = header->transaction_id,
               .attribute_modifier = header->attribute_modifier,
               .message = *std::move(message)};
}

MadBuffer emit_cm_mad(const CmMad& mad) {
  MadBuffer octets{};
  emit_mad_header({.management_class = static_cast<std::uint8_t>(ManagementClass::kConnectionManagement),
                   .class_version = kCmClassVersion,
                   .method = static_cast<std::uint8_t>(MadMethod::kSend),
                   .transaction_id = mad.transaction_id,
                   .attribute_id = static_cast<std::uint16_t>(attribute_of(mad.message)),
                   .attribute_modifier = mad.attribute_modifier},
                  octets);
  std::visit(
      [&](const auto& message) {
        RRDMA_ASSERT(known_kind(message) && info_fits(message));
        Writer writer(MutableOctets(octets).subspan(kMadHeaderOctets));
        layout<Writer>(writer, message);
      },
      mad.message);
  return octets;
}

}  // namespace rrdma::wire
