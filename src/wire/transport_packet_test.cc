#include "wire/transport_packet.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/prng.h"

namespace rrdma::wire::transport_packet_test {

TEST(Psn, OrderHoldsAcrossTheWrap) {
  EXPECT_TRUE(Psn(0xffffff).before(Psn(0)));
  EXPECT_TRUE(Psn(2).after(Psn(0xfffffe)));
  EXPECT_EQ(Psn(1).since(Psn(0xffffff)), 2);
  EXPECT_EQ(Psn(0xffffff).since(Psn(1)), -2);
  EXPECT_EQ((Psn(0xffffff) + 1), Psn(0));
  EXPECT_EQ(Psn(0x800000).since(Psn(0)), -0x800000);
}

TEST(Opcode, LengthsOfTheHeadersFollowTheRule) {
  using enum Step;
  const auto octets = [](Transport t, Step s) { return int{shape_of(Opcode(t, s)).header_octets}; };
  EXPECT_EQ(octets(Transport::kReliableConnection, kSendOnly), 12);
  EXPECT_EQ(octets(Transport::kReliableConnection, kWriteOnlyImmediate), 32);
  EXPECT_EQ(octets(Transport::kReliableConnection, kCompareSwap), 40);
  EXPECT_EQ(octets(Transport::kReliableConnection, kAtomicAcknowledge), 24);
  EXPECT_EQ(octets(Transport::kReliableConnection, kReadResponseMiddle), 12);
  EXPECT_EQ(octets(Transport::kReliableConnection, kFlush), 32);
  EXPECT_EQ(octets(Transport::kExtendedReliableConnection, kSendLastInvalidate), 20);
  EXPECT_EQ(octets(Transport::kExtendedReliableConnection, kAcknowledge), 16);
  EXPECT_EQ(octets(Transport::kUnreliableDatagram, kSendOnlyImmediate), 24);
  EXPECT_EQ(octets(Transport::kUnreliableConnection, kWriteFirst), 28);
}

TEST(Opcode, TransportsHaveJustTheOperationsOfTheSpecification) {
  int rc = 0, uc = 0, ud = 0, xrc = 0, other = 0;
  std::set<std::string_view> names;
  for (unsigned i = 0; i < 256; ++i) {
    const Opcode opcode(static_cast<std::uint8_t>(i));
    EXPECT_TRUE(names.insert(opcode_name(opcode)).second);
    if (!shape_of(opcode).known()) continue;
    switch (opcode.transport()) {
      case Transport::kReliableConnection: ++rc; break;
      case Transport::kUnreliableConnection: ++uc; break;
      case Transport::kUnreliableDatagram: ++ud; break;
      case Transport::kExtendedReliableConnection: ++xrc; break;
      default: ++other;
    }
  }
  EXPECT_EQ(rc, 25);
  EXPECT_EQ(uc, 12);
  EXPECT_EQ(ud, 2);
  EXPECT_EQ(xrc, 25);
  EXPECT_EQ(other, 2);  // CNP, and our arrival map
}

// Random values for the headers that the opcode has, zero for the others.
TransportHeaders random_headers(Opcode opcode, Prng& prng) {
  const OpcodeShape& shape = shape_of(opcode);
  const auto r32 = [&] { return static_cast<std::uint32_t>(prng.next()); };
  const auto r8 = [&] { return static_cast<std::uint8_t>(prng.next()); };
  TransportHeaders h;
  h.bth = {.opcode = opcode,
           .solicited = prng.below(2) == 1,
           .migration = prng.below(2) == 1,
           .pad = 0,
           .version = 0,
           .pkey = static_cast<std::uint16_t>(prng.next()),
           .fecn = prng.below(2) == 1,
           .becn = prng.below(2) == 1,
           .reserved6 = static_cast<std::uint8_t>(r8() & 0x3f),
           .destination = Qpn(r32()),
           .ack_request = prng.below(2) == 1,
           .reserved7 = static_cast<std::uint8_t>(r8() & 0x7f),
           .psn = Psn(r32())};
  if (shape.deth) h.deth = {.qkey = {r32()}, .reserved8 = r8(), .source = Qpn(r32())};
  if (shape.xrceth) h.xrceth = {.reserved8 = r8(), .srq = r32() & kMask24};
  if (shape.feth) h.feth = {.raw = r32()};
  if (shape.reth) h.reth = {.address = prng.next(), .rkey = {r32()}, .length = r32()};
  if (shape.atomic_eth) {
    h.atomic = {.address = prng.next(), .rkey = {r32()}, .swap_or_add = prng.next(), .compare = prng.next()};
  }
  if (shape.aeth) h.aeth = {.syndrome = r8(), .msn = r32() & kMask24};
  if (shape.atomic_ack_eth) h.atomic_ack = {.original = prng.next()};
  if (shape.immediate) h.immediate = {.raw = r32()};
  if (shape.invalidate) h.invalidate = {r32()};
  return h;
}

std::size_t random_payload_length(PayloadRule rule, Prng& prng) {
  switch (rule) {
    case PayloadRule::kNone: return 0;
    case PayloadRule::kFull: return 256;
    case PayloadRule::kOneToFull: return prng.between(1, 256);
    case PayloadRule::kUpToFull: return prng.between(0, 256);
    case PayloadRule::kEight: return 8;
    case PayloadRule::kSixteen: return 16;
  }
  return 0;
}

TEST(TransportPacket, ParseIsTheInverseOfEmitForEveryOpcode) {
  Prng prng(1);
  for (unsigned i = 0; i < 256; ++i) {
    const Opcode opcode(static_cast<std::uint8_t>(i));
    if (!shape_of(opcode).known()) continue;
    for (int round = 0; round < 200; ++round) {
      TransportHeaders headers = random_headers(opcode, prng);
      const std::size_t length = random_payload_length(shape_of(opcode).payload, prng);
      headers.bth.pad = pad_for(length);
      std::vector<std::uint8_t> octets(kHeaderOctetsMax);
      octets.resize(emit_transport_headers(headers, octets.data()) + length + headers.bth.pad);
      TransportPacket packet;
      ASSERT_EQ(parse_transport(octets, packet), TransportError::kNone) << opcode_name(opcode);
      EXPECT_EQ(packet.headers, headers) << opcode_name(opcode);
      EXPECT_EQ(packet.payload.size(), length);
      std::vector<std::uint8_t> again(kHeaderOctetsMax);
      const std::size_t n = emit_transport_headers(packet.headers, again.data());
      EXPECT_TRUE(std::equal(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(n), octets.begin()));
    }
  }
}

TEST(TransportPacket, WhatIsWrongIsNamed) {
  TransportHeaders headers;
  headers.bth.opcode = Opcode(Transport::kReliableConnection, Step::kWriteOnly);
  std::vector<std::uint8_t> octets(kHeaderOctetsMax);
  octets.resize(emit_transport_headers(headers, octets.data()) + 4);
  TransportPacket packet;
  ASSERT_EQ(parse_transport(octets, packet), TransportError::kNone);

  EXPECT_EQ(parse_transport(Octets(octets).first(11), packet), TransportError::kTooShort);
  EXPECT_EQ(parse_transport(Octets(octets).first(27), packet), TransportError::kTooShort);
  EXPECT_EQ(parse_transport(Octets(octets).first(30), packet), TransportError::kNotPadded);
  auto bad = octets;
  bad[1] = 0x01;
  EXPECT_EQ(parse_transport(bad, packet), TransportError::kUnknownVersion);
  bad = octets;
  bad[0] = 0x1f;
  EXPECT_EQ(parse_transport(bad, packet), TransportError::kUnknownOpcode);
  bad = octets;
  bad[1] = 0x30;
  EXPECT_EQ(parse_transport(Octets(bad).first(28), packet), TransportError::kPadBeyondPayload);
  bad = octets;
  bad[0] = static_cast<std::uint8_t>(Step::kAtomicWrite);
  EXPECT_EQ(parse_transport(bad, packet), TransportError::kPayloadLength);
}

}  // namespace rrdma::wire::transport_packet_test
