// Golden messages are MADs of the Linux kernel 6.1 (rxe), cut after the last nonzero byte. The expected
// values were read with tshark, except the flow label and packet rate of a REQ. tshark 4.0 reads these from
// the wrong bytes, so they were checked by hand. No capture holds an MRA, LAP or APR: their vectors are
// derived from the tables of chapter 12, field by field.
#include "wire/cm_mad.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "wire/cm_ip_header.h"

namespace rrdma::wire::cm_mad_test {

MadBuffer mad_of(std::string_view hex) {
  MadBuffer mad{};
  const auto nibble = [](char c) { return static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::size_t digits = 0;
  for (const char c : hex) {
    if (c == ' ' || c == '\n') continue;
    mad[digits / 2] |= static_cast<std::uint8_t>(digits % 2 == 0 ? nibble(c) << 4 : nibble(c));
    ++digits;
  }
  return mad;
}

constexpr std::string_view kReqV4 =
    "0107020300000000000000022ce80db00010000000000000"
    "b00de82c000000000000000001061c06007700fffe00000300000000000000000000620100000001000000a08cd3bca7"
    "ffff57f0ffffffff00000000000000000000ffff0a4d000300000000000000000000ffff0a4d00026bc2e00000400098"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000040bad8"
    "0000000000000000000000000a4d00030000000000000000000000000a4d0002";
constexpr std::string_view kReqV6 =
    "0107020300000000000000022ce80db40010000000000000"
    "b40de82c000000000000000001061c06007700fffe000003000000000000000000007e0100000001000000a0f4a5d5a7"
    "ffff57f0fffffffffd770000000000000000000000000003fd77000000000000000000000000000247cbe00000400098"
    "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000060a848"
    "fd770000000000000000000000000003fd770000000000000000000000000002";
constexpr std::string_view kRep =
    "0107020300000000000000022ce80db00013000000000000"
    "6ea668ecb00de82c0000000000006000000000003d002700010178e0007700fffe000002";
constexpr std::string_view kRtu =
    "0107020300000000000000022ce80db00014000000000000"
    "b00de82c6ea668ec";
constexpr std::string_view kDreq =
    "0107020300000000000000022ce80db00015000000000000"
    "b00de82c6ea668ec000060";
constexpr std::string_view kDrep =
    "0107020300000000000000022ce80db00016000000000000"
    "6ea668ecb00de82c";
constexpr std::string_view kRej =
    "0107020300000000000000022ce80db30012000000000000"
    "00000000b30de82c00000008";
constexpr std::string_view kSidrReq =
    "0107020300000000000000022ce80db20017000000000000"
    "b20de82cffff00000000000001111c06004095a00000000000000000000000000a4d0003000000000000000000000000"
    "0a4d0002";
constexpr std::string_view kSidrRep =
    "0107020300000000000000022ce80db20018000000000000"
    "b20de82c00000000000062000000000001111c0601234567";

constexpr std::string_view kMra =
    "0107020300000000000000000000000100110000000000000a0b0c0d01020304"
    "40"  // kind 1 (REP) in the first two bits
    "c0"  // service timeout 24 in the first five bits
    "aabb";
constexpr std::string_view kLap =
    "0107020300000000000000000000000100190000000000000a0b0c0d0102030400000000"
    "123456a0"  // QPN, response timeout 20
    "00000000"
    "ffffeeee"  // LIDs
    "00000000000000000000ffff0a000001"
    "00000000000000000000ffff0a000002"
    "abcde0"
    "20"  // flow label, reserved(4); traffic class
    "40"
    "12"
    "38"
    "88"  // hop limit; rate 18; SL 3 and subnet local; ack timeout 17
    "cc";
constexpr std::string_view kApr =
    "01070203000000000000000000000001001a0000000000000a0b0c0d01020304"
    "02020000"  // two bytes of information, status 2
    "beef";

template <typename Message>
Message parsed(std::string_view hex) {
  const auto mad = parse_cm_mad(mad_of(hex));
  EXPECT_TRUE(mad.ok());
  EXPECT_TRUE(std::holds_alternative<Message>(mad->message));
  return std::get<Message>(mad->message);
}

TEST(CmMad, GoldenMessagesComeOutAsTheyWentIn) {
  for (const auto hex :
       {kReqV4, kReqV6, kRep, kRtu, kDreq, kDrep, kRej, kSidrReq, kSidrRep, kMra, kLap, kApr}) {
    const MadBuffer mad = mad_of(hex);
    const auto value = parse_cm_mad(mad);
    ASSERT_TRUE(value.ok()) << describe(value.error());
    EXPECT_EQ(emit_cm_mad(*value), mad) << cm_message_name(attribute_of(value->message));
  }
}

TEST(CmMad, TheKernelsReqSaysWhatTsharkReads) {
  EXPECT_EQ(parse_cm_mad(mad_of(kReqV4))->transaction_id, 0x000000022ce80db0u);
  const auto req = parsed<CmReq>(kReqV4);
  EXPECT_EQ(req.local_comm_id.value, 0xb00de82cu);
  EXPECT_EQ(req.service_id, 0x0000000001061c06u);
  EXPECT_EQ(req.local_ca_guid, 0x007700fffe000003u);
  EXPECT_EQ(req.local_qpn, Qpn(0x62));
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.remote_cm_response_timeout, 20);
  EXPECT_EQ(req.transport, CmTransport::kReliable);
  EXPECT_FALSE(req.end_to_end_flow_control);
  EXPECT_EQ(req.starting_psn, Psn(0x8cd3bc));
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.partition_key, 0xffff);
  EXPECT_EQ(req.path_mtu, 5);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_FALSE(req.srq);
  EXPECT_EQ(req.extended_transport, 0);
  EXPECT_EQ(req.primary.local_lid, 0xffff);
  EXPECT_EQ(req.primary.remote_lid, 0xffff);
  EXPECT_EQ(req.primary.local_gid, gid_of(Ipv4Address{{10, 77, 0, 3}}));
  EXPECT_EQ(req.primary.remote_gid, gid_of(Ipv4Address{{10, 77, 0, 2}}));
  EXPECT_EQ(req.primary.flow_label, 0x6bc2eu);
  EXPECT_EQ(req.primary.packet_rate, 0);
  EXPECT_EQ(req.primary.traffic_class, 0);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_EQ(req.primary.service_level, 0);
  EXPECT_FALSE(req.primary.subnet_local);
  EXPECT_EQ(req.primary.local_ack_timeout, 19);
  EXPECT_EQ(req.alternate, CmPath{});
}

TEST(CmMad, TheKernelsIpCmHeadersSayWhoCalledWhom) {
  const auto v4 = parse_ip_cm_header(parsed<CmReq>(kReqV4).private_data);
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(*v4, (IpCmHeader{.version = IpVersion::kIpv4,
                             .source_port = 0xbad8,
                             .source = gid_of(Ipv4Address{{10, 77, 0, 3}}),
                             .destination = gid_of(Ipv4Address{{10, 77, 0, 2}})}));
  const auto v6 = parse_ip_cm_header(parsed<CmReq>(kReqV6).private_data);
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->version, IpVersion::kIpv6);
  EXPECT_EQ(v6->source, (Gid{{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}}));
  const auto sidr = parse_ip_cm_header(parsed<CmSidrReq>(kSidrReq).private_data);
  ASSERT_TRUE(sidr.ok());
  EXPECT_EQ(sidr->source_port, 0x95a0);
}

TEST(CmMad, TheKernelsAnswersSayWhatTsharkReads) {
  const auto rep = parsed<CmRep>(kRep);
  EXPECT_EQ(rep.local_comm_id.value, 0x6ea668ecu);
  EXPECT_EQ(rep.remote_comm_id.value, 0xb00de82cu);
  EXPECT_EQ(rep.local_qpn, Qpn(0x60));
  EXPECT_EQ(rep.starting_psn, Psn(0x3d0027));
  EXPECT_EQ(rep.responder_resources, 1);
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.failover_accepted, 0);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  EXPECT_EQ(rep.local_ca_guid, 0x007700fffe000002u);

  const auto dreq = parsed<CmDreq>(kDreq);
  EXPECT_EQ(dreq.local_comm_id.value, 0xb00de82cu);
  EXPECT_EQ(dreq.remote_comm_id.value, 0x6ea668ecu);
  EXPECT_EQ(dreq.remote_qpn, Qpn(0x60));

  const auto rej = parsed<CmRej>(kRej);
  EXPECT_EQ(rej.local_comm_id.value, 0u);
  EXPECT_EQ(rej.remote_comm_id.value, 0xb30de82cu);
  EXPECT_EQ(rej.kind, CmMessageKind::kReq);
  EXPECT_EQ(rej.reason, RejectReason::kInvalidServiceId);

  const auto sidr = parsed<CmSidrRep>(kSidrRep);
  EXPECT_EQ(sidr.request_id.value, 0xb20de82cu);
  EXPECT_EQ(sidr.status, SidrStatus::kValid);
  EXPECT_EQ(sidr.qpn, Qpn(0x62));
  EXPECT_EQ(sidr.service_id, 0x0000000001111c06u);
  EXPECT_EQ(sidr.qkey.value, 0x01234567u);
}

TEST(CmMad, MessagesThatNoCaptureHolds) {
  const auto mra = parsed<CmMra>(kMra);
  EXPECT_EQ(mra.kind, CmMessageKind::kRep);
  EXPECT_EQ(mra.service_timeout, 24);
  EXPECT_EQ(mra.private_data[0], 0xaa);

  const auto lap = parsed<CmLap>(kLap);
  EXPECT_EQ(lap.remote_qpn, Qpn(0x123456));
  EXPECT_EQ(lap.remote_cm_response_timeout, 20);
  EXPECT_EQ(lap.alternate, (CmPath{.local_lid = 0xffff,
                                   .remote_lid = 0xeeee,
                                   .local_gid = gid_of(Ipv4Address{{10, 0, 0, 1}}),
                                   .remote_gid = gid_of(Ipv4Address{{10, 0, 0, 2}}),
                                   .flow_label = 0xabcde,
                                   .packet_rate = 18,
                                   .traffic_class = 0x20,
                                   .hop_limit = 0x40,
                                   .service_level = 3,
                                   .subnet_local = true,
                                   .local_ack_timeout = 17}));
  EXPECT_EQ(lap.private_data[0], 0xcc);

  const auto apr = parsed<CmApr>(kApr);
  EXPECT_EQ(apr.info_length, 2);
  EXPECT_EQ(apr.status, AlternatePathStatus::kNotSupported);
  EXPECT_EQ(apr.info[1], 0xef);
}

TEST(CmMad, PrivateDataEndsWithTheMad) {
  for (unsigned attribute = 0x10; attribute <= 0x1a; ++attribute) {
    MadBuffer mad = mad_of(kRtu.substr(0, 2 * kMadHeaderOctets));
    mad[17] = static_cast<std::uint8_t>(attribute);
    mad.back() = 0x5a;
    const auto value = parse_cm_mad(mad);
    ASSERT_TRUE(value.ok());
    const auto last = std::visit([](const auto& m) { return m.private_data.back(); }, value->message);
    EXPECT_EQ(last, 0x5a) << attribute;
  }
}

MadBuffer random_mad(Prng& prng, unsigned attribute) {
  MadBuffer mad{};
  for (auto& octet : mad) octet = static_cast<std::uint8_t>(prng.next());
  const MadBuffer header = mad_of("0107020300000000");
  std::copy_n(header.begin(), 8, mad.begin());
  mad[16] = 0;
  mad[17] = static_cast<std::uint8_t>(attribute);
  return mad;
}

// Random bytes serve as random values. emit may drop only the reserved bits: always the same ones, and as
// many as the tables of chapter 12 reserve. A length of at most 72 never uses its eighth bit.
TEST(CmMad, ParseAndEmitAreInverseUpToReservedBits) {
  constexpr unsigned kHeaderReserved = 16;
  const std::vector<std::pair<unsigned, unsigned>> reserved_bits = {
      {0x10, 8 + 32 + (6 + 3 + 3) + (6 + 3 + 2)},
      {0x11, 6 + 3},
      {0x12, 6 + 1},
      {0x13, 4},
      {0x14, 0},
      {0x15, 8},
      {0x16, 0},
      {0x17, 16},
      {0x18, 1},
      {0x19, 32 + 3 + 32 + 4 + 2 + 3 + 3},
      {0x1a, 16 + 1},
  };
  Prng prng(3);
  for (const auto& [attribute, expected] : reserved_bits) {
    std::vector<std::pair<MadBuffer, MadBuffer>> pairs;
    MadBuffer kept{};
    while (pairs.size() < 1000) {
      const MadBuffer mad = random_mad(prng, attribute);
      const auto value = parse_cm_mad(mad);
      if (!value.ok()) continue;
      const MadBuffer emitted = emit_cm_mad(*value);
      const auto again = parse_cm_mad(emitted);
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(*again, *value);
      for (std::size_t i = 0; i < mad.size(); ++i) kept[i] |= emitted[i];
      pairs.emplace_back(mad, emitted);
    }
    for (const auto& [mad, emitted] : pairs) {
      for (std::size_t i = 0; i < mad.size(); ++i)
        ASSERT_EQ(emitted[i], mad[i] & kept[i]) << attribute << " " << i;
    }
    unsigned never_kept = 0;
    for (std::size_t i = 18; i < kept.size(); ++i)
      never_kept += 8u - static_cast<unsigned>(std::popcount(kept[i]));
    EXPECT_EQ(never_kept, expected + kHeaderReserved) << attribute;
  }
}

TEST(CmMad, RefusesWithTheReason) {
  const auto error_of = [](const MadBuffer& mad) { return parse_cm_mad(mad).error(); };
  const auto changed = [](std::string_view hex, std::size_t octet, std::uint8_t value) {
    MadBuffer mad = mad_of(hex);
    mad[octet] = value;
    return mad;
  };
  EXPECT_EQ(error_of(changed(kRtu, 0, 0)), MadError::kUnknownBaseVersion);
  EXPECT_EQ(error_of(changed(kRtu, 1, 3)), MadError::kWrongClass);
  EXPECT_EQ(error_of(changed(kRtu, 2, 1)), MadError::kUnknownClassVersion);
  EXPECT_EQ(error_of(changed(kRtu, 3, 0x81)), MadError::kWrongMethod);
  EXPECT_EQ(error_of(changed(kRtu, 17, 0x0f)), MadError::kUnknownAttribute);
  EXPECT_EQ(error_of(changed(kRtu, 17, 0x1b)), MadError::kUnknownAttribute);
  EXPECT_EQ(error_of(changed(kRtu, 16, 1)), MadError::kUnknownAttribute);
  EXPECT_EQ(error_of(changed(kMra, 24 + 8, 0xc0)), MadError::kUnknownMessageKind);
  EXPECT_EQ(error_of(changed(kRej, 24 + 8, 0xc0)), MadError::kUnknownMessageKind);
  EXPECT_EQ(error_of(changed(kRej, 24 + 9, 73 << 1)), MadError::kInfoTooLong);
  EXPECT_EQ(error_of(changed(kApr, 24 + 8, 73)), MadError::kInfoTooLong);
  EXPECT_EQ(error_of(changed(kSidrRep, 24 + 5, 73)), MadError::kInfoTooLong);
  EXPECT_TRUE(parse_cm_mad(changed(kRej, 24 + 9, 72 << 1)).ok());
  EXPECT_EQ(parse_cm_mad(Octets(mad_of(kRtu)).first(255)).error(), MadError::kWrongLength);
}

TEST(IpCmHeader, ParseUndoesEmitAndStrangeOnesAreRefused) {
  Prng prng(4);
  for (int round = 0; round < 1000; ++round) {
    IpCmHeader header{.version = prng.below(2) == 0 ? IpVersion::kIpv4 : IpVersion::kIpv6,
                      .source_port = static_cast<std::uint16_t>(prng.next())};
    for (Gid* gid : {&header.source, &header.destination}) {
      for (auto& octet : gid->octets) octet = static_cast<std::uint8_t>(prng.next());
      if (header.version == IpVersion::kIpv4)
        *gid = gid_of(Ipv4Address{{gid->octets[0], 1, 2, gid->octets[3]}});
    }
    std::array<std::uint8_t, kIpCmHeaderOctets> octets{};
    emit_ip_cm_header(header, octets);
    const auto again = parse_ip_cm_header(octets);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, header);
    octets[0] = 0x10;
    EXPECT_EQ(parse_ip_cm_header(octets).error(), MadError::kUnknownIpHeader);
    octets[0] = 0;
    octets[1] = 0x50;
    EXPECT_EQ(parse_ip_cm_header(octets).error(), MadError::kUnknownIpHeader);
  }
}

TEST(IpService, IsTheServiceIdOfAPort) {
  EXPECT_EQ(service_id_of({PortSpace::kTcp, 7174}), 0x0000000001061c06u);
  EXPECT_EQ(ip_service_of(0x0000000001111c06), (IpService{PortSpace::kUdp, 0x1c06}));
  EXPECT_EQ(ip_service_of(0x00000000013f0001), (IpService{PortSpace::kIb, 1}));
  EXPECT_EQ(ip_service_of(0x0000000001070001), std::nullopt);
  EXPECT_EQ(ip_service_of(0x0000000101060001), std::nullopt);
}

}  // namespace rrdma::wire::cm_mad_test
