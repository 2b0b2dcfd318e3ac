#include "wire/mad.h"

#include "base/assert.h"

namespace rrdma::wire {

std::string_view describe(MadError error) {
  switch (error) {
    case MadError::kWrongLength: return "a MAD is 256 bytes long";
    case MadError::kUnknownBaseVersion: return "the MAD's base version is not 1";
    case MadError::kWrongClass: return "the MAD is not of the class of connection management";
    case MadError::kUnknownClassVersion: return "the class version of connection management is not 2";
    case MadError::kWrongMethod: return "connection management knows only the method Send";
    case MadError::kUnknownAttribute: return "the attribute names no message of connection management";
    case MadError::kUnknownMessageKind: return "the MRA or REJ refers to a kind of message that there is not";
    case MadError::kInfoTooLong: return "the additional information is said to be longer than its 72 bytes";
    case MadError::kUnknownIpHeader:
      return "the IP-CM header is not of version 0, or of neither IPv4 nor IPv6";
  }
  return "unknown";
}

Result<MadHeader, MadError> parse_mad_header(Octets mad) {
  if (mad.size() != kMadOctets) return Failure{MadError::kWrongLength};
  const std::uint8_t* p = mad.data();
  MadHeader header{.base_version = p[0],
                   .management_class = p[1],
                   .class_version = p[2],
                   .method = p[3],
                   .status = load_be16(p + 4),
                   .class_specific = load_be16(p + 6),
                   .transaction_id = load_be64(p + 8),
                   .attribute_id = load_be16(p + 16),
                   .attribute_modifier = load_be32(p + 20)};
  if (header.base_version != kMadBaseVersion) return Failure{MadError::kUnknownBaseVersion};
  return header;
}

void emit_mad_header(const MadHeader& header, MutableOctets to) {
  RRDMA_ASSERT(to.size() >= kMadHeaderOctets);
  std::uint8_t* p = to.data();
  p[0] = header.base_version;
  p[1] = header.management_class;
  p[2] = header.class_version;
  p[3] = header.method;
  store_be16(p + 4, header.status);
  store_be16(p + 6, header.class_specific);
  store_be64(p + 8, header.transaction_id);
  store_be16(p + 16, header.attribute_id);
  store_be16(p + 18, 0);
  store_be32(p + 20, header.attribute_modifier);
}

namespace {

// The bytes that a bit field touches, and the distance of its last bit from the end of the last byte.
struct Extent {
  std::size_t octets;
  unsigned shift;
};

Extent extent_of(unsigned bit, unsigned width) {
  RRDMA_ASSERT(bit < 8 && width >= 1 && width <= 32);
  const unsigned octets = (bit + width + 7) / 8;
  return {octets, octets * 8 - bit - width};
}

}  // namespace

std::uint32_t load_bits(Octets from, std::size_t octet, unsigned bit, unsigned width) {
  const Extent extent = extent_of(bit, width);
  RRDMA_ASSERT(octet + extent.octets <= from.size());
  std::uint64_t window = 0;
  for (std::size_t i = 0; i < extent.octets; ++i) window = window << 8 | from[octet + i];
  return static_cast<std::uint32_t>(window >> extent.shift & ((std::uint64_t{1} << width) - 1));
}

void store_bits(MutableOctets to, std::size_t octet, unsigned bit, unsigned width, std::uint32_t value) {
  const Extent extent = extent_of(bit, width);
  RRDMA_ASSERT(octet + extent.octets <= to.size());
  RRDMA_ASSERT(std::uint64_t{value} >> width == 0);
  const std::uint64_t window = std::uint64_t{value} << extent.shift;
  for (std::size_t i = 0; i < extent.octets; ++i) {
    to[octet + i] |= static_cast<std::uint8_t>(window >> 8 * (extent.octets - 1 - i));
  }
}

}  // namespace rrdma::wire
