// BTH and the extension headers: values and their encoding. parse_ functions read exactly the length of their
// header; emit_ functions write exactly that much. Callers check lengths once (parse_transport does).
#pragma once

#include <cstdint>

#include "base/octets.h"
#include "wire/numbers.h"
#include "wire/opcode.h"

namespace rrdma::wire {

// opcode | SE MigReq Pad(2) TVer(4) | P_Key(16) | FECN BECN reserved(6) DestQP(24) | AckReq reserved(7)
// PSN(24)
struct Bth {
  Opcode opcode;
  bool solicited = false;
  bool migration = false;
  std::uint8_t pad = 0;      // 0..3 bytes after the payload
  std::uint8_t version = 0;  // transport header version: 0
  std::uint16_t pkey = kDefaultPKey;
  bool fecn = false;
  bool becn = false;
  std::uint8_t reserved6 = 0;  // kept, so that emit restores what was parsed
  Qpn destination;
  bool ack_request = false;
  std::uint8_t reserved7 = 0;
  Psn psn;
  friend bool operator==(const Bth&, const Bth&) = default;
};

struct Reth {
  std::uint64_t address = 0;
  RKey rkey;
  std::uint32_t length = 0;
  friend bool operator==(const Reth&, const Reth&) = default;
};

// Syndrome: 000ccccc ACK with credit code; 001ttttt RNR NAK with timer code; 011ccccc NAK.
struct Aeth {
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  // 24 bits
  friend bool operator==(const Aeth&, const Aeth&) = default;

  [[nodiscard]] constexpr bool is_ack() const { return syndrome >> 5 == 0; }
  [[nodiscard]] constexpr bool is_rnr_nak() const { return syndrome >> 5 == 1; }
  [[nodiscard]] constexpr bool is_nak() const { return syndrome >> 5 == 3; }
  [[nodiscard]] constexpr std::uint8_t code() const { return syndrome & 0x1f; }
};

inline constexpr std::uint8_t kSyndromeAckNoCredits = 0x1f;
inline constexpr std::uint8_t kSyndromeRnrBase = 0x20;
inline constexpr std::uint8_t kSyndromeNakBase = 0x60;

enum class NakCode : std::uint8_t {
  kSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccessError = 2,
  kRemoteOperationalError = 3,
};

inline constexpr std::uint8_t kSyndromeSequenceNak =
    kSyndromeNakBase | static_cast<std::uint8_t>(NakCode::kSequenceError);

struct AtomicEth {
  std::uint64_t address = 0;
  RKey rkey;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;
  friend bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

struct AtomicAckEth {
  std::uint64_t original = 0;
  friend bool operator==(const AtomicAckEth&, const AtomicAckEth&) = default;
};

struct Deth {
  QKey qkey;
  std::uint8_t reserved8 = 0;
  Qpn source;
  friend bool operator==(const Deth&, const Deth&) = default;
};

struct XrcEth {
  std::uint8_t reserved8 = 0;
  std::uint32_t srq = 0;  // 24 bits
  friend bool operator==(const XrcEth&, const XrcEth&) = default;
};

// FLUSH: placement type in bits 3-0 (1 global visibility, 2 persistence), selectivity in bits 5-4
// (0 range, 1 whole memory region).
struct Feth {
  std::uint32_t raw = 0;
  friend bool operator==(const Feth&, const Feth&) = default;

  [[nodiscard]] constexpr std::uint8_t placement() const { return raw & 0xf; }
  [[nodiscard]] constexpr std::uint8_t selectivity() const { return raw >> 4 & 0x3; }
};

inline Bth parse_bth(const std::uint8_t* p) {
  Bth bth;
  bth.opcode = Opcode(p[0]);
  bth.solicited = (p[1] & 0x80) != 0;
  bth.migration = (p[1] & 0x40) != 0;
  bth.pad = p[1] >> 4 & 3;
  bth.version = p[1] & 0xf;
  bth.pkey = load_be16(p + 2);
  bth.fecn = (p[4] & 0x80) != 0;
  bth.becn = (p[4] & 0x40) != 0;
  bth.reserved6 = p[4] & 0x3f;
  bth.destination = Qpn(load_be32(p + 4));
  bth.ack_request = (p[8] & 0x80) != 0;
  bth.reserved7 = p[8] & 0x7f;
  bth.psn = Psn(load_be32(p + 8));
  return bth;
}

inline void emit_bth(const Bth& bth, std::uint8_t* p) {
  p[0] = bth.opcode.value;
  p[1] = static_cast<std::uint8_t>((bth.solicited ? 0x80 : 0) | (bth.migration ? 0x40 : 0) |
                                   (bth.pad & 3) << 4 | (bth.version & 0xf));
  store_be16(p + 2, bth.pkey);
  store_be32(p + 4, (bth.fecn ? 0x80000000u : 0) | (bth.becn ? 0x40000000u : 0) |
                        static_cast<std::uint32_t>(bth.reserved6 & 0x3f) << 24 | bth.destination.value);
  store_be32(p + 8, (bth.ack_request ? 0x80000000u : 0) |
                        static_cast<std::uint32_t>(bth.reserved7 & 0x7f) << 24 | bth.psn.value);
}

inline Reth parse_reth(const std::uint8_t* p) {
  return {.address = load_be64(p), .rkey = {load_be32(p + 8)}, .length = load_be32(p + 12)};
}
inline void emit_reth(const Reth& reth, std::uint8_t* p) {
  store_be64(p, reth.address);
  store_be32(p + 8, reth.rkey.value);
  store_be32(p + 12, reth.length);
}

inline Aeth parse_aeth(const std::uint8_t* p) { return {.syndrome = p[0], .msn = load_be24(p + 1)}; }
inline void emit_aeth(const Aeth& aeth, std::uint8_t* p) {
  store_be32(p, static_cast<std::uint32_t>(aeth.syndrome) << 24 | (aeth.msn & kMask24));
}

inline AtomicEth parse_atomic_eth(const std::uint8_t* p) {
  return {.address = load_be64(p),
          .rkey = {load_be32(p + 8)},
          .swap_or_add = load_be64(p + 12),
          .compare = load_be64(p + 20)};
}
inline void emit_atomic_eth(const AtomicEth& atomic, std::uint8_t* p) {
  store_be64(p, atomic.address);
  store_be32(p + 8, atomic.rkey.value);
  store_be64(p + 12, atomic.swap_or_add);
  store_be64(p + 20, atomic.compare);
}

inline AtomicAckEth parse_atomic_ack_eth(const std::uint8_t* p) { return {.original = load_be64(p)}; }
inline void emit_atomic_ack_eth(const AtomicAckEth& ack, std::uint8_t* p) { store_be64(p, ack.original); }

inline Deth parse_deth(const std::uint8_t* p) {
  return {.qkey = {load_be32(p)}, .reserved8 = p[4], .source = Qpn(load_be24(p + 5))};
}
inline void emit_deth(const Deth& deth, std::uint8_t* p) {
  store_be32(p, deth.qkey.value);
  store_be32(p + 4, static_cast<std::uint32_t>(deth.reserved8) << 24 | deth.source.value);
}

inline XrcEth parse_xrceth(const std::uint8_t* p) { return {.reserved8 = p[0], .srq = load_be24(p + 1)}; }
inline void emit_xrceth(const XrcEth& xrc, std::uint8_t* p) {
  store_be32(p, static_cast<std::uint32_t>(xrc.reserved8) << 24 | (xrc.srq & kMask24));
}

inline Feth parse_feth(const std::uint8_t* p) { return {.raw = load_be32(p)}; }
inline void emit_feth(const Feth& feth, std::uint8_t* p) { store_be32(p, feth.raw); }

inline Immediate parse_immediate(const std::uint8_t* p) { return {.raw = load_native<std::uint32_t>(p)}; }
inline void emit_immediate(Immediate immediate, std::uint8_t* p) { store_native(p, immediate.raw); }

inline RKey parse_ieth(const std::uint8_t* p) { return {load_be32(p)}; }
inline void emit_ieth(RKey rkey, std::uint8_t* p) { store_be32(p, rkey.value); }

}  // namespace rrdma::wire
