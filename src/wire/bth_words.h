// The BTH as two words: its first eight bytes and its last four. A load that covers several earlier stores
// waits until all of them have reached the cache. Behind a store to a cache line of another core, that takes
// longer than all other work of a small message. So links within a host write and read the BTH as words.
#pragma once

#include <cstdint>

#include "base/octets.h"
#include "wire/headers.h"

namespace rrdma::wire {

// As emit_bth().
inline void emit_bth_words(const Bth& bth, std::uint8_t* p) {
  const auto flags = static_cast<std::uint32_t>((bth.solicited ? 0x80 : 0) | (bth.migration ? 0x40 : 0) |
                                                (bth.pad & 3) << 4 | (bth.version & 0xf));
  const std::uint32_t first = std::uint32_t{bth.opcode.value} << 24 | flags << 16 | bth.pkey;
  const std::uint32_t second = (bth.fecn ? 0x80000000u : 0) | (bth.becn ? 0x40000000u : 0) |
                               static_cast<std::uint32_t>(bth.reserved6 & 0x3f) << 24 | bth.destination.value;
  store_native(p, big_endian(std::uint64_t{first} << 32 | second));
  store_be32(p + 8, (bth.ack_request ? 0x80000000u : 0) |
                        static_cast<std::uint32_t>(bth.reserved7 & 0x7f) << 24 | bth.psn.value);
}

// As parse_bth(), into the place where the header is needed.
inline void parse_bth_words(const std::uint8_t* p, Bth& bth) {
  const std::uint64_t first = load_be64(p);
  const std::uint32_t last = load_be32(p + 8);
  const auto flags = static_cast<std::uint8_t>(first >> 48);
  const auto second = static_cast<std::uint32_t>(first);
  bth.opcode = Opcode(static_cast<std::uint8_t>(first >> 56));
  bth.solicited = (flags & 0x80) != 0;
  bth.migration = (flags & 0x40) != 0;
  bth.pad = flags >> 4 & 3;
  bth.version = flags & 0xf;
  bth.pkey = static_cast<std::uint16_t>(first >> 32);
  bth.fecn = (second & 0x80000000u) != 0;
  bth.becn = (second & 0x40000000u) != 0;
  bth.reserved6 = second >> 24 & 0x3f;
  bth.destination = Qpn(second);
  bth.ack_request = (last & 0x80000000u) != 0;
  bth.reserved7 = last >> 24 & 0x7f;
  bth.psn = Psn(last);
}

// The transport headers as the sender stored them: a BTH in words, and fields of at least four bytes behind
// it. `octets` is a multiple of four, at least kBthOctets.
inline void copy_headers(std::uint8_t* to, const std::uint8_t* from, std::size_t octets) {
  store_native(to, load_native<std::uint64_t>(from));
  for (std::size_t at = 8; at < octets; at += 4) store_native(to + at, load_native<std::uint32_t>(from + at));
}

}  // namespace rrdma::wire
