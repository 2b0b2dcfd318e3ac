// Opcodes of the BTH. An opcode is a transport (upper three bits) and an operation (lower five).
// shape_by_rule() states once which headers follow an opcode; it is evaluated for all 256 values at compile
// time.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rrdma::wire {

enum class Transport : std::uint8_t {
  kReliableConnection = 0,
  kUnreliableConnection = 1,
  kReliableDatagram = 2,
  kUnreliableDatagram = 3,
  kCongestion = 4,
  kExtendedReliableConnection = 5,
};

// The lower five bits, as RC numbers them; the other transports use a subset.
enum class Step : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImmediate = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImmediate = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImmediate = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImmediate = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInvalidate = 0x16,
  kSendOnlyInvalidate = 0x17,
  kFlush = 0x1c,
  kAtomicWrite = 0x1d,
};

struct Opcode {
  std::uint8_t value = 0;

  constexpr Opcode() = default;
  constexpr explicit Opcode(std::uint8_t v) : value(v) {}
  constexpr Opcode(Transport transport, Step step)
      : value(
            static_cast<std::uint8_t>(static_cast<unsigned>(transport) << 5 | static_cast<unsigned>(step))) {}
  [[nodiscard]] constexpr Transport transport() const { return static_cast<Transport>(value >> 5); }
  [[nodiscard]] constexpr Step step() const { return static_cast<Step>(value & 0x1f); }
  friend constexpr bool operator==(Opcode, Opcode) = default;
};

// Congestion notification packet (RoCEv2 annex): 16 reserved bytes, no operation.
inline constexpr Opcode kCongestionNotification{std::uint8_t{0x81}};

// Used only between RRDMA peers that have agreed on it: a bitmap of the packets that a responder holds beyond
// its expected PSN. The opcode is from the specification's manufacturer range.
inline constexpr Opcode kArrivalMap{std::uint8_t{0xd1}};

// The operation that a packet belongs to.
enum class Kind : std::uint8_t {
  kUnknown,  // reserved by the specification, or an unsupported transport
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kAtomic,
  kFlush,
  kAtomicWrite,
  kCongestion,
  kArrivals,
};

// The payload that an opcode permits (m: the MTU in bytes).
enum class PayloadRule : std::uint8_t {
  kNone,       // none
  kFull,       // exactly m (FIRST, MIDDLE)
  kOneToFull,  // 1..m (LAST)
  kUpToFull,   // 0..m (ONLY)
  kEight,      // exactly 8 (ATOMIC WRITE)
  kSixteen,    // exactly 16 (CNP)
};

struct OpcodeShape {
  Kind kind = Kind::kUnknown;
  PayloadRule payload = PayloadRule::kNone;
  bool starts_message = false;  // FIRST or ONLY
  bool ends_message = false;    // LAST or ONLY
  bool request = false;         // sent to the responder
  bool deth = false;
  bool xrceth = false;
  bool feth = false;
  bool reth = false;
  bool atomic_eth = false;
  bool aeth = false;
  bool atomic_ack_eth = false;
  bool immediate = false;
  bool invalidate = false;
  std::uint8_t header_octets = 0;  // BTH and all extension headers

  // READs and ATOMICs are acknowledged by their responses.
  [[nodiscard]] constexpr bool acknowledged_by_ack() const {
    return kind == Kind::kSend || kind == Kind::kWrite;
  }
  [[nodiscard]] constexpr bool is_middle() const { return !starts_message && !ends_message; }
  [[nodiscard]] constexpr bool known() const { return kind != Kind::kUnknown; }
};

inline constexpr std::size_t kBthOctets = 12;
inline constexpr std::size_t kDethOctets = 8;
inline constexpr std::size_t kXrcEthOctets = 4;
inline constexpr std::size_t kFethOctets = 4;
inline constexpr std::size_t kRethOctets = 16;
inline constexpr std::size_t kAtomicEthOctets = 28;
inline constexpr std::size_t kAethOctets = 4;
inline constexpr std::size_t kAtomicAckEthOctets = 8;
inline constexpr std::size_t kImmediateOctets = 4;
inline constexpr std::size_t kIethOctets = 4;
inline constexpr std::size_t kIcrcOctets = 4;

// The operation of a packet and its position in the message.
struct StepPlace {
  Kind kind = Kind::kUnknown;
  unsigned position = 3;  // 0 first, 1 middle, 2 last, 3 only
};

constexpr StepPlace place_of(Step step) {
  const auto number = static_cast<unsigned>(step);
  StepPlace place;
  switch (step) {
    case Step::kSendFirst:
    case Step::kSendMiddle:
    case Step::kSendLast:
      place.kind = Kind::kSend;
      place.position = number;
      break;
    case Step::kSendLastImmediate:
    case Step::kSendLastInvalidate:
      place.kind = Kind::kSend;
      place.position = 2;
      break;
    case Step::kSendOnly:
    case Step::kSendOnlyImmediate:
    case Step::kSendOnlyInvalidate: place.kind = Kind::kSend; break;
    case Step::kWriteFirst:
    case Step::kWriteMiddle:
    case Step::kWriteLast:
      place.kind = Kind::kWrite;
      place.position = number - static_cast<unsigned>(Step::kWriteFirst);
      break;
    case Step::kWriteLastImmediate:
      place.kind = Kind::kWrite;
      place.position = 2;
      break;
    case Step::kWriteOnly:
    case Step::kWriteOnlyImmediate: place.kind = Kind::kWrite; break;
    case Step::kReadRequest: place.kind = Kind::kReadRequest; break;
    case Step::kReadResponseFirst:
    case Step::kReadResponseMiddle:
    case Step::kReadResponseLast:
      place.kind = Kind::kReadResponse;
      place.position = number - static_cast<unsigned>(Step::kReadResponseFirst);
      break;
    case Step::kReadResponseOnly: place.kind = Kind::kReadResponse; break;
    case Step::kAcknowledge: place.kind = Kind::kAcknowledge; break;
    case Step::kAtomicAcknowledge: place.kind = Kind::kAtomicAcknowledge; break;
    case Step::kCompareSwap:
    case Step::kFetchAdd: place.kind = Kind::kAtomic; break;
    case Step::kFlush: place.kind = Kind::kFlush; break;
    case Step::kAtomicWrite: place.kind = Kind::kAtomicWrite; break;
  }
  return place;
}

constexpr bool is_request(Kind kind) {
  return kind == Kind::kSend || kind == Kind::kWrite || kind == Kind::kReadRequest || kind == Kind::kAtomic ||
         kind == Kind::kFlush || kind == Kind::kAtomicWrite;
}

constexpr bool carries_immediate(Step step) {
  return step == Step::kSendLastImmediate || step == Step::kSendOnlyImmediate ||
         step == Step::kWriteLastImmediate || step == Step::kWriteOnlyImmediate;
}

constexpr bool carries_invalidate(Step step) {
  return step == Step::kSendLastInvalidate || step == Step::kSendOnlyInvalidate;
}

// Whether a transport defines this operation.
constexpr bool transport_has(Transport transport, Step step) {
  const Kind kind = place_of(step).kind;
  switch (transport) {
    case Transport::kReliableConnection:
    case Transport::kExtendedReliableConnection: return kind != Kind::kUnknown;
    case Transport::kUnreliableConnection:
      return (kind == Kind::kSend || kind == Kind::kWrite) && !carries_invalidate(step);
    case Transport::kUnreliableDatagram: return step == Step::kSendOnly || step == Step::kSendOnlyImmediate;
    default: return false;
  }
}

constexpr PayloadRule payload_rule(StepPlace place) {
  switch (place.kind) {
    case Kind::kSend:
    case Kind::kWrite:
    case Kind::kReadResponse:
      return place.position == 3   ? PayloadRule::kUpToFull
             : place.position == 2 ? PayloadRule::kOneToFull
                                   : PayloadRule::kFull;
    case Kind::kAtomicWrite: return PayloadRule::kEight;
    default: return OpcodeShape{}.payload;
  }
}

constexpr std::size_t header_octets(const OpcodeShape& shape) {
  return kBthOctets + (shape.deth ? kDethOctets : 0) + (shape.xrceth ? kXrcEthOctets : 0) +
         (shape.feth ? kFethOctets : 0) + (shape.reth ? kRethOctets : 0) +
         (shape.atomic_eth ? kAtomicEthOctets : 0) + (shape.aeth ? kAethOctets : 0) +
         (shape.atomic_ack_eth ? kAtomicAckEthOctets : 0) + (shape.immediate ? kImmediateOctets : 0) +
         (shape.invalidate ? kIethOctets : 0);
}

constexpr OpcodeShape shape_by_rule(Opcode opcode) {
  OpcodeShape shape;
  if (opcode == kCongestionNotification) {
    shape.kind = Kind::kCongestion;
    shape.payload = PayloadRule::kSixteen;
    shape.header_octets = kBthOctets;
    return shape;
  }
  if (opcode == kArrivalMap) {
    shape.kind = Kind::kArrivals;
    shape.payload = PayloadRule::kUpToFull;
    shape.aeth = true;
    shape.header_octets = kBthOctets + kAethOctets;
    return shape;
  }
  const Transport transport = opcode.transport();
  const Step step = opcode.step();
  if (!transport_has(transport, step)) return shape;
  const auto [kind, position] = place_of(step);
  shape.kind = kind;
  shape.starts_message = position == 0 || position == 3;
  shape.ends_message = position >= 2;
  shape.request = is_request(kind);
  shape.deth = transport == Transport::kUnreliableDatagram;
  shape.xrceth = transport == Transport::kExtendedReliableConnection && shape.request;
  shape.feth = kind == Kind::kFlush;
  shape.reth = (kind == Kind::kWrite && shape.starts_message) || kind == Kind::kReadRequest ||
               kind == Kind::kFlush || kind == Kind::kAtomicWrite;
  shape.atomic_eth = kind == Kind::kAtomic;
  // READ RESPONSE MIDDLE carries no AETH; every other response does.
  shape.aeth = kind == Kind::kAcknowledge || kind == Kind::kAtomicAcknowledge ||
               (kind == Kind::kReadResponse && position != 1);
  shape.atomic_ack_eth = kind == Kind::kAtomicAcknowledge;
  shape.immediate = carries_immediate(step);
  shape.invalidate = carries_invalidate(step);
  shape.payload = payload_rule({kind, position});
  shape.header_octets = static_cast<std::uint8_t>(header_octets(shape));
  return shape;
}

inline constexpr std::array<OpcodeShape, 256> kOpcodeShapes = [] {
  std::array<OpcodeShape, 256> shapes{};
  for (unsigned i = 0; i < 256; ++i) shapes[i] = shape_by_rule(Opcode(static_cast<std::uint8_t>(i)));
  return shapes;
}();

constexpr const OpcodeShape& shape_of(Opcode opcode) { return kOpcodeShapes[opcode.value]; }

// The longest sequence of BTH and extension headers (XRC compare-and-swap).
inline constexpr std::size_t kHeaderOctetsMax = [] {
  std::size_t longest = 0;
  for (const auto& shape : kOpcodeShapes)
    longest = shape.header_octets > longest ? shape.header_octets : longest;
  return longest;
}();
static_assert(kHeaderOctetsMax == 44);

// "RC SEND ONLY WITH IMMEDIATE"; "reserved 0x1f" for an unknown opcode.
std::string_view opcode_name(Opcode opcode);
std::string_view transport_name(Transport transport);

}  // namespace rrdma::wire
