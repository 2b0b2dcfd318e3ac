// Hand-derived bytes for the opcodes that tshark 4.0 does not know: XRC, FLUSH, ATOMIC WRITE, CNP. Each
// vector spells out the header layouts field by field. The tests compare parse and emit with it, and whole
// frames with an ICRC computed bit by bit.
//
//   BTH, 12 bytes:  opcode | SE MigReq Pad(2) TVer(4) | P_Key(16) | FECN BECN 0(6) DestQP(24) | AckReq 0(7)
//   PSN(24)
//
// An opcode is transport(3) operation(5): RC 000, XRC 101, CNP 100 00001. Operations: SEND FIRST 0, SEND ONLY
// 4, SEND ONLY WITH IMMEDIATE 5, WRITE FIRST 6, READ REQUEST 0x0c, READ RESPONSE ONLY 0x10, ACKNOWLEDGE 0x11,
// ATOMIC ACKNOWLEDGE 0x12, COMPARE SWAP 0x13, SEND LAST WITH INVALIDATE 0x16, FLUSH 0x1c, ATOMIC WRITE 0x1d.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "dissection/packet_dissection.h"
#include "wire/roce_packet.h"
#include "wire/transport_packet.h"

namespace rrdma::wire::hand_vectors_test {

using Bytes = std::vector<std::uint8_t>;

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Immediate immediate_of(std::array<std::uint8_t, 4> octets) {
  Immediate immediate;
  std::memcpy(&immediate.raw, octets.data(), octets.size());
  return immediate;
}

struct Vector {
  const char* name;
  TransportHeaders headers;
  Bytes payload;
  Bytes octets;  // from the BTH to the end of the pad
};

// XRC requests carry an XRCETH directly behind the BTH: reserved(8) XRCSRQ(24). XRC responses do not.
const Bytes kXrcEth = {0x00, 0x00, 0x12, 0x34};
const XrcEth kXrcEthValue{.srq = 0x1234};
// RETH: address(64) R_Key(32) length(32).
const Bytes kReth = {0x00, 0x00, 0xff, 0xff, 0x9e, 0xbd, 0xf0, 0x00,
                     0xca, 0xfe, 0xba, 0xbe, 0x00, 0x00, 0x0b, 0xb8};
const Reth kRethValue{.address = 0xffff9ebdf000, .rkey = {0xcafebabe}, .length = 3000};
// AETH: syndrome(8) MSN(24). 0x1f: 000 = ACK, 11111 = no credit information.
const Bytes kAeth = {0x1f, 0x00, 0x00, 0x07};
const Aeth kAethValue{.syndrome = 0x1f, .msn = 7};

Bth bth(std::uint8_t opcode, std::uint8_t pad, bool ack_request) {
  return {.opcode = Opcode(opcode),
          .pad = pad,
          .pkey = 0xffff,
          .destination = Qpn(0xabcdef),
          .ack_request = ack_request,
          .psn = Psn(0x654321)};
}
// The same in bytes: flags 00 pp 0000 = pad << 4; AckReq is the highest bit of the byte before the PSN.
Bytes bth_octets(std::uint8_t opcode, std::uint8_t flags, std::uint8_t ack) {
  return {opcode, flags, 0xff, 0xff, 0x00, 0xab, 0xcd, 0xef, ack, 0x65, 0x43, 0x21};
}

std::vector<Vector> vectors() {
  std::vector<Vector> all;
  // XRC SEND ONLY: 101 00100 = 0xa4. Five bytes of payload, three of pad: 00 11 0000 = 0x30.
  all.push_back({"XRC SEND ONLY",
                 {.bth = bth(0xa4, 3, true), .xrceth = kXrcEthValue},
                 {1, 2, 3, 4, 5},
                 joined({bth_octets(0xa4, 0x30, 0x80), kXrcEth, {1, 2, 3, 4, 5, 0, 0, 0}})});
  // XRC SEND ONLY WITH IMMEDIATE: 101 00101 = 0xa5; the immediate follows the XRCETH unchanged.
  all.push_back({"XRC SEND ONLY WITH IMMEDIATE",
                 {.bth = bth(0xa5, 0, false),
                  .xrceth = kXrcEthValue,
                  .immediate = immediate_of({0xde, 0xad, 0xbe, 0xef})},
                 {},
                 joined({bth_octets(0xa5, 0, 0), kXrcEth, {0xde, 0xad, 0xbe, 0xef}})});
  // XRC SEND LAST WITH INVALIDATE: 101 10110 = 0xb6; the IETH is the R_Key.
  all.push_back({"XRC SEND LAST WITH INVALIDATE",
                 {.bth = bth(0xb6, 0, true), .xrceth = kXrcEthValue, .invalidate = {0x01020304}},
                 {9, 9, 9, 9},
                 joined({bth_octets(0xb6, 0, 0x80), kXrcEth, {0x01, 0x02, 0x03, 0x04}, {9, 9, 9, 9}})});
  // XRC RDMA WRITE FIRST: 101 00110 = 0xa6: XRCETH, then RETH.
  all.push_back({"XRC RDMA WRITE FIRST",
                 {.bth = bth(0xa6, 0, false), .xrceth = kXrcEthValue, .reth = kRethValue},
                 Bytes(256, 0x5a),
                 joined({bth_octets(0xa6, 0, 0), kXrcEth, kReth, Bytes(256, 0x5a)})});
  // XRC RDMA READ REQUEST: 101 01100 = 0xac.
  all.push_back({"XRC RDMA READ REQUEST",
                 {.bth = bth(0xac, 0, true), .xrceth = kXrcEthValue, .reth = kRethValue},
                 {},
                 joined({bth_octets(0xac, 0, 0x80), kXrcEth, kReth})});
  // XRC RDMA READ RESPONSE ONLY: 101 10000 = 0xb0: a response, so it has an AETH and no XRCETH.
  all.push_back({"XRC RDMA READ RESPONSE ONLY",
                 {.bth = bth(0xb0, 2, false), .aeth = kAethValue},
                 {7, 7},
                 joined({bth_octets(0xb0, 0x20, 0), kAeth, {7, 7, 0, 0}})});
  // XRC ACKNOWLEDGE: 101 10001 = 0xb1.
  all.push_back({"XRC ACKNOWLEDGE",
                 {.bth = bth(0xb1, 0, false), .aeth = kAethValue},
                 {},
                 joined({bth_octets(0xb1, 0, 0), kAeth})});
  // XRC ATOMIC ACKNOWLEDGE: 101 10010 = 0xb2: AETH, then AtomicAckETH, 64 bits.
  all.push_back(
      {"XRC ATOMIC ACKNOWLEDGE",
       {.bth = bth(0xb2, 0, false), .aeth = kAethValue, .atomic_ack = {.original = 0x1122334455667788}},
       {},
       joined({bth_octets(0xb2, 0, 0), kAeth, {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}})});
  // XRC COMPARE SWAP: 101 10011 = 0xb3: XRCETH, then AtomicETH: address(64) R_Key(32) swap(64) compare(64).
  all.push_back({"XRC COMPARE SWAP",
                 {.bth = bth(0xb3, 0, true),
                  .xrceth = kXrcEthValue,
                  .atomic = {.address = 0x1000, .rkey = {0x00000f12}, .swap_or_add = 2, .compare = 1}},
                 {},
                 joined({bth_octets(0xb3, 0, 0x80),
                         kXrcEth,
                         {0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x0f, 0x12},
                         {0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1}})});
  // RC FLUSH: 000 11100 = 0x1c. The FETH precedes the RETH: reserved(26) selectivity(2) placement(4); the
  // whole region (01), global visibility and persistence (0011): 01 0011 = 0x13.
  all.push_back({"RC FLUSH",
                 {.bth = bth(0x1c, 0, true), .feth = {.raw = 0x13}, .reth = kRethValue},
                 {},
                 joined({bth_octets(0x1c, 0, 0x80), {0, 0, 0, 0x13}, kReth})});
  // XRC FLUSH: 101 11100 = 0xbc: XRCETH, FETH, RETH. Persistence (0010) of a range (00).
  all.push_back(
      {"XRC FLUSH",
       {.bth = bth(0xbc, 0, true), .xrceth = kXrcEthValue, .feth = {.raw = 0x02}, .reth = kRethValue},
       {},
       joined({bth_octets(0xbc, 0, 0x80), kXrcEth, {0, 0, 0, 0x02}, kReth})});
  // RC ATOMIC WRITE: 000 11101 = 0x1d: RETH and exactly 8 bytes.
  all.push_back({"RC ATOMIC WRITE",
                 {.bth = bth(0x1d, 0, true), .reth = kRethValue},
                 {1, 2, 3, 4, 5, 6, 7, 8},
                 joined({bth_octets(0x1d, 0, 0x80), kReth, {1, 2, 3, 4, 5, 6, 7, 8}})});
  // XRC ATOMIC WRITE: 101 11101 = 0xbd.
  all.push_back({"XRC ATOMIC WRITE",
                 {.bth = bth(0xbd, 0, true), .xrceth = kXrcEthValue, .reth = kRethValue},
                 {1, 2, 3, 4, 5, 6, 7, 8},
                 joined({bth_octets(0xbd, 0, 0x80), kXrcEth, kReth, {1, 2, 3, 4, 5, 6, 7, 8}})});
  // CNP: 100 00001 = 0x81, BECN (0x40 in byte 4), PSN 0, 16 zero bytes.
  TransportHeaders cnp{.bth = bth(0x81, 0, false)};
  cnp.bth.becn = true;
  cnp.bth.psn = Psn(0);
  all.push_back({"CNP", cnp, Bytes(16),
                 joined({{0x81, 0, 0xff, 0xff, 0x40, 0xab, 0xcd, 0xef, 0, 0, 0, 0}, Bytes(16)})});
  return all;
}

TEST(HandVectors, ParseGivesTheValue) {
  for (const Vector& vector : vectors()) {
    TransportPacket packet;
    ASSERT_EQ(parse_transport(vector.octets, packet), TransportError::kNone) << vector.name;
    EXPECT_EQ(packet.headers, vector.headers) << vector.name;
    EXPECT_TRUE(std::equal(packet.payload.begin(), packet.payload.end(), vector.payload.begin(),
                           vector.payload.end()))
        << vector.name;
    EXPECT_EQ(opcode_name(packet.headers.bth.opcode), vector.name);
  }
}

TEST(HandVectors, EmitGivesTheOctets) {
  for (const Vector& vector : vectors()) {
    Bytes octets(kHeaderOctetsMax);
    octets.resize(emit_transport_headers(vector.headers, octets.data()));
    octets.insert(octets.end(), vector.payload.begin(), vector.payload.end());
    octets.resize(octets.size() + vector.headers.bth.pad);
    EXPECT_EQ(octets, vector.octets) << vector.name;
  }
}

// CRC-32 by definition: polynomial 0x04c11db7, each byte least significant bit first.
std::uint32_t crc_bit_by_bit(const Bytes& octets) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t octet : octets) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const bool difference = ((crc ^ (octet >> bit)) & 1) != 0;
      crc = crc >> 1 ^ (difference ? 0xedb88320u : 0);  // 0x04c11db7, mirrored
    }
  }
  return ~crc;
}

// On the wire the least significant byte of the CRC comes first.
Bytes icrc_octets(std::uint32_t crc) {
  Bytes octets;
  for (unsigned shift = 0; shift < 32; shift += 8) octets.push_back(static_cast<std::uint8_t>(crc >> shift));
  return octets;
}

void expect_good(const Bytes& frame, const Vector& vector) {
  CapturedPacket captured;
  captured.octets = frame;
  captured.original_octets = static_cast<std::uint32_t>(frame.size());
  const Dissection packet = dissect(captured);
  EXPECT_EQ(packet.verdict, PacketVerdict::kGood) << vector.name << ": " << packet.reason;
  ASSERT_TRUE(packet.frame && packet.transport) << vector.name;
  EXPECT_EQ(packet.transport->headers, vector.headers) << vector.name;
  Bytes again(frame_octets(*packet.frame));
  emit_frame(*packet.frame, again);
  EXPECT_EQ(again, frame) << vector.name;
}

const Bytes kEthernetAddresses = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};

// The transport bytes as the ICRC covers them: byte 4 of the BTH is all ones.
Bytes masked_transport(const Vector& vector) {
  Bytes masked = vector.octets;
  masked[4] = 0xff;
  return masked;
}

TEST(HandVectors, WholeFramesOverIpv4) {
  for (const Vector& vector : vectors()) {
    const auto udp_length = static_cast<std::uint16_t>(8 + vector.octets.size() + 4);
    const auto ip_length = static_cast<std::uint16_t>(20 + udp_length);
    const auto high = [](std::uint16_t number) { return static_cast<std::uint8_t>(number >> 8); };
    const auto low = [](std::uint16_t number) { return static_cast<std::uint8_t>(number); };
    // 10.0.0.1 to 10.0.0.2, identification 0x1234, DF, TTL 64, UDP. The checksum is the complement of the
    // ones' complement sum of all other words.
    std::uint32_t sum =
        0x4500u + ip_length + 0x1234u + 0x4000u + 0x4011u + 0x0a00u + 0x0001u + 0x0a00u + 0x0002u;
    sum = (sum & 0xffff) + (sum >> 16);
    const auto checksum = static_cast<std::uint16_t>(~sum);
    const Bytes addresses = {10, 0, 0, 1, 10, 0, 0, 2};
    const Bytes ip = joined({{0x45, 0, high(ip_length), low(ip_length), 0x12, 0x34, 0x40, 0, 64, 17,
                              high(checksum), low(checksum)},
                             addresses});
    const Bytes udp = {0xc0, 0x01, 0x12, 0xb7, high(udp_length), low(udp_length), 0, 0};  // 4791 = 0x12b7
    // Ones replace TOS, TTL, both checksums and byte 4 of the BTH; 8 bytes of ones come first.
    const Bytes covered =
        joined({Bytes(8, 0xff),
                {0x45, 0xff, high(ip_length), low(ip_length), 0x12, 0x34, 0x40, 0, 0xff, 17, 0xff, 0xff},
                addresses,
                {0xc0, 0x01, 0x12, 0xb7, high(udp_length), low(udp_length), 0xff, 0xff},
                masked_transport(vector)});
    expect_good(
        joined(
            {kEthernetAddresses, {0x08, 0x00}, ip, udp, vector.octets, icrc_octets(crc_bit_by_bit(covered))}),
        vector);
  }
}

TEST(HandVectors, WholeFramesOverRoceV1) {
  const Bytes gids = joined({{0xfe, 0x80}, Bytes(13), {1}, {0xfe, 0x80}, Bytes(13), {2}});
  for (const Vector& vector : vectors()) {
    const std::size_t length = vector.octets.size() + 4;
    const Bytes lengths = {static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length), 0x1b};
    const Bytes grh = joined({{0x60, 0, 0, 0}, lengths, {64}, gids});
    // Ones replace traffic class, flow label and hop limit.
    const Bytes covered =
        joined({Bytes(8, 0xff), {0x6f, 0xff, 0xff, 0xff}, lengths, {0xff}, gids, masked_transport(vector)});
    expect_good(
        joined({kEthernetAddresses, {0x89, 0x15}, grh, vector.octets, icrc_octets(crc_bit_by_bit(covered))}),
        vector);
  }
}

}  // namespace rrdma::wire::hand_vectors_test
