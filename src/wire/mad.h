// Management datagrams: the 24-byte header of every 256-byte MAD, and bit-field codecs for the bodies behind
// it. cm_mad.h holds the bodies of the connection manager.
//
//   base version | class | class version | method | status(16) | class specific(16) |
//   transaction ID(64) | attribute ID(16) | reserved(16) | attribute modifier(32)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/octets.h"
#include "base/result.h"

namespace rrdma::wire {

inline constexpr std::size_t kMadOctets = 256;
inline constexpr std::size_t kMadHeaderOctets = 24;
inline constexpr std::uint8_t kMadBaseVersion = 1;

enum class ManagementClass : std::uint8_t {
  kSubnetAdministration = 0x03,
  kConnectionManagement = 0x07,
  kVendorFirst = 0x30,  // vendor classes with an OUI: 0x30 to 0x4f
  kVendorLast = 0x4f,
};

enum class MadMethod : std::uint8_t {
  kGet = 0x01,
  kSet = 0x02,
  kSend = 0x03,
  kTrap = 0x05,
  kGetResponse = 0x81
};

struct MadHeader {
  std::uint8_t base_version = kMadBaseVersion;
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = 0;
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  std::uint64_t transaction_id = 0;
  std::uint16_t attribute_id = 0;
  std::uint32_t attribute_modifier = 0;
  friend bool operator==(const MadHeader&, const MadHeader&) = default;
};

enum class MadError : std::uint8_t {
  kWrongLength,          // not 256 bytes
  kUnknownBaseVersion,   // not 1
  kWrongClass,           // not the connection manager's
  kUnknownClassVersion,  // not 2
  kWrongMethod,          // the connection manager uses only Send
  kUnknownAttribute,     // not a message of the connection manager
  kUnknownMessageKind,   // MRA or REJ refers to an undefined message
  kInfoTooLong,          // more than 72 bytes of additional information
  kUnknownIpHeader,      // the IP-CM header is not version 0, or neither IPv4 nor IPv6
};
[[nodiscard]] std::string_view describe(MadError error);

// Refuses anything but 256 bytes of base version 1. Reserved bytes are ignored, and emitted as zero.
[[nodiscard]] Result<MadHeader, MadError> parse_mad_header(Octets mad);
// REQUIRES: room for kMadHeaderOctets.
void emit_mad_header(const MadHeader& header, MutableOctets to);

// Reads or writes `width` bits (at most 32), starting `bit` bits into byte `octet`. Bits count from the most
// significant one, as in the specification's tables.
[[nodiscard]] std::uint32_t load_bits(Octets from, std::size_t octet, unsigned bit, unsigned width);
// REQUIRES: the value fits into `width` bits; the target bits are zero.
void store_bits(MutableOctets to, std::size_t octet, unsigned bit, unsigned width, std::uint32_t value);

}  // namespace rrdma::wire
