// Whole frames: emit and parse are inverse in both orders. Foreign frames are distinguished from malformed
// ones. A change of any byte is detected as expected.
#include "wire/roce_packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/prng.h"

namespace rrdma::wire::roce_packet_test {

template <std::size_t N>
void randomise(Prng& prng, std::array<std::uint8_t, N>& octets) {
  for (auto& octet : octets) octet = static_cast<std::uint8_t>(prng.next());
}

struct FrameWithOctets {
  std::vector<std::uint8_t> transport;
  std::vector<std::uint8_t> trailer;
  RoceFrame frame;
};

std::uint16_t ether_type_of(Network network) {
  switch (network) {
    case Network::kIpv4: return kEtherTypeIpv4;
    case Network::kIpv6: return kEtherTypeIpv6;
    case Network::kRoceV1: return kEtherTypeRoceV1;
  }
  return 0;
}

void randomise_network(Prng& prng, Network network, RoceFrame& frame) {
  switch (network) {
    case Network::kIpv4: {
      Ipv4Header ip;
      ip.tos = static_cast<std::uint8_t>(prng.next());
      ip.identification = static_cast<std::uint16_t>(prng.next());
      ip.dont_fragment = prng.below(2) == 0;
      ip.ttl = static_cast<std::uint8_t>(prng.next());
      ip.options_octets = static_cast<std::uint8_t>(prng.below(4) == 0 ? 4 * prng.below(11) : 0);
      for (std::size_t at = 0; at < ip.options_octets; ++at)
        ip.options[at] = static_cast<std::uint8_t>(prng.next());
      randomise(prng, ip.source.octets);
      randomise(prng, ip.destination.octets);
      frame.network = ip;
      break;
    }
    case Network::kIpv6: {
      Ipv6Header ip;
      ip.traffic_class = static_cast<std::uint8_t>(prng.next());
      ip.flow_label = static_cast<std::uint32_t>(prng.below(1 << 20));
      ip.hop_limit = static_cast<std::uint8_t>(prng.next());
      randomise(prng, ip.source.octets);
      randomise(prng, ip.destination.octets);
      frame.network = ip;
      break;
    }
    case Network::kRoceV1: {
      Grh grh;
      grh.traffic_class = static_cast<std::uint8_t>(prng.next());
      grh.flow_label = static_cast<std::uint32_t>(prng.below(1 << 20));
      grh.hop_limit = static_cast<std::uint8_t>(prng.next());
      randomise(prng, grh.source.octets);
      randomise(prng, grh.destination.octets);
      frame.network = grh;
      frame.udp = UdpHeader{.source = 0, .destination = 0, .length = 0, .checksum = 0};
      return;
    }
  }
  frame.udp.source = static_cast<std::uint16_t>(prng.between(0xc000, 0xffff));
  frame.udp.checksum = static_cast<std::uint16_t>(prng.below(2));
}

FrameWithOctets random_frame(Prng& prng, Network network) {
  FrameWithOctets made;
  made.transport.resize(kBthOctets + (prng.below(8) == 0 ? prng.below(4097) : prng.below(64)));
  for (auto& octet : made.transport) octet = static_cast<std::uint8_t>(prng.next());
  if (prng.below(4) == 0) made.trailer.resize(prng.below(20), 0xee);
  made.frame.transport = made.transport;
  made.frame.trailer = made.trailer;
  randomise_network(prng, network, made.frame);
  if (network == Network::kRoceV1 || prng.below(4) != 0) {
    made.frame.ethernet.emplace();
    randomise(prng, made.frame.ethernet->destination.octets);
    randomise(prng, made.frame.ethernet->source.octets);
    if (prng.below(2) == 0)
      made.frame.ethernet->vlan = VlanTag{.id = static_cast<std::uint16_t>(prng.below(4096))};
    made.frame.ethernet->ether_type = ether_type_of(network);
  }
  return made;
}

std::vector<std::uint8_t> octets_of(const RoceFrame& frame) {
  std::vector<std::uint8_t> octets(frame_octets(frame));
  EXPECT_EQ(emit_frame(frame, octets), octets.size());
  return octets;
}

LinkType link_of(const RoceFrame& frame) { return frame.ethernet ? LinkType::kEthernet : LinkType::kRawIp; }

class EveryNetwork : public testing::TestWithParam<Network> {};
INSTANTIATE_TEST_SUITE_P(RocePacket, EveryNetwork,
                         testing::Values(Network::kIpv4, Network::kIpv6, Network::kRoceV1));

TEST_P(EveryNetwork, ParseAndEmitAreInverse) {
  Prng prng(1);
  for (int round = 0; round < 2000; ++round) {
    const auto made = random_frame(prng, GetParam());
    const auto octets = octets_of(made.frame);
    const auto parsed = parse_frame(link_of(made.frame), octets);
    ASSERT_TRUE(parsed.ok()) << describe(parsed.error());
    EXPECT_EQ(parsed->ethernet, made.frame.ethernet);
    EXPECT_EQ(parsed->network_kind(), GetParam());
    EXPECT_EQ(parsed->udp.source, made.frame.udp.source);
    EXPECT_TRUE(std::equal(parsed->transport.begin(), parsed->transport.end(), made.transport.begin(),
                           made.transport.end()));
    EXPECT_TRUE(
        std::equal(parsed->trailer.begin(), parsed->trailer.end(), made.trailer.begin(), made.trailer.end()));
    EXPECT_TRUE(parsed->icrc_right());
    const bool checksum = GetParam() != Network::kRoceV1 && made.frame.udp.checksum != 0;
    EXPECT_EQ(parsed->udp_checksum, checksum ? ChecksumVerdict::kRight : ChecksumVerdict::kNone);
    EXPECT_EQ(octets_of(*parsed), octets);
  }
}

// A flipped bit anywhere behind the link header is refused, detected by the ICRC, or in a variable field.
TEST_P(EveryNetwork, AFlippedBitIsNoticedOrMayChange) {
  Prng prng(2);
  for (int round = 0; round < 2000; ++round) {
    auto made = random_frame(prng, GetParam());
    made.frame.ethernet.reset();
    if (GetParam() == Network::kRoceV1) made.frame.ethernet = EthernetHeader{.ether_type = kEtherTypeRoceV1};
    made.frame.trailer = {};
    auto octets = octets_of(made.frame);
    const std::size_t link = made.frame.ethernet ? made.frame.ethernet->octets() : 0;
    const std::size_t at = prng.between(link, octets.size() - 1);
    octets[at] ^= static_cast<std::uint8_t>(1 << prng.below(8));
    const auto parsed = parse_frame(link_of(made.frame), octets);
    if (!parsed.ok() || !parsed->icrc_right()) continue;
    const std::size_t bth = octets.size() - kIcrcOctets - made.transport.size();
    const std::size_t field = at - link;
    const bool may_change = at == bth + 4 || (GetParam() != Network::kIpv4 && (field <= 3 || field == 7)) ||
                            (GetParam() != Network::kRoceV1 && (at == bth - 2 || at == bth - 1));
    EXPECT_TRUE(may_change) << "octet " << field;
  }
}

TEST_P(EveryNetwork, ATruncatedFrameIsRefused) {
  Prng prng(3);
  for (int round = 0; round < 50; ++round) {
    auto made = random_frame(prng, GetParam());
    made.frame.trailer = {};
    const auto octets = octets_of(made.frame);
    for (std::size_t size = 0; size < octets.size(); ++size) {
      const auto parsed = parse_frame(link_of(made.frame), Octets(octets).first(size));
      ASSERT_FALSE(parsed.ok()) << size << " of " << octets.size();
      EXPECT_FALSE(is_foreign(parsed.error()));
    }
  }
}

std::vector<std::uint8_t> sample(Network network) {
  Prng prng(4);
  auto made = random_frame(prng, network);
  made.frame.ethernet = EthernetHeader{.ether_type = ether_type_of(network)};
  if (auto* ip = std::get_if<Ipv4Header>(&made.frame.network)) ip->options_octets = 0;
  return octets_of(made.frame);
}

TEST(RocePacket, TellsForeignFromWrong) {
  auto octets = sample(Network::kIpv6);
  octets[12] = 0x08;
  octets[13] = 0x06;
  EXPECT_EQ(parse_frame(octets).error(), FrameError::kOtherEtherType);
  octets = sample(Network::kIpv6);
  octets[14 + 6] = 6;
  EXPECT_EQ(parse_frame(octets).error(), FrameError::kOtherProtocol);
  octets = sample(Network::kIpv6);
  octets[14 + 40 + 2] ^= 1;
  EXPECT_EQ(parse_frame(octets).error(), FrameError::kOtherPort);
  octets = sample(Network::kRoceV1);
  octets[14 + 6] = 17;
  EXPECT_EQ(parse_frame(octets).error(), FrameError::kOtherNextHeader);
  EXPECT_EQ(parse_frame(static_cast<LinkType>(113), octets).error(), FrameError::kOtherLinkType);
  for (int error = 0; error <= static_cast<int>(FrameError::kTransportTooShort); ++error) {
    EXPECT_NE(describe(static_cast<FrameError>(error)), "unknown error");
  }

  octets = sample(Network::kIpv6);
  octets[14 + 40 + 5] ^= 1;
  EXPECT_EQ(parse_frame(octets).error(), FrameError::kUdpLength);
  octets = sample(Network::kIpv6);
  octets[14 + 6] = 44;
  EXPECT_EQ(parse_frame(octets).error(), FrameError::kIpExtensionHeader);
  EXPECT_EQ(parse_frame(LinkType::kRawIp, {}).error(), FrameError::kIpTooShort);
  const std::vector<std::uint8_t> version_five(60, 0x50);
  EXPECT_EQ(parse_frame(LinkType::kRawIp, version_five).error(), FrameError::kIpVersion);
  EXPECT_TRUE(is_foreign(FrameError::kOtherPort));
  EXPECT_FALSE(is_foreign(FrameError::kIpFragment));
}

TEST(RocePacket, HasRoomForABthAndAnIcrc) {
  Ipv6Header ip;
  ip.payload_length = 8 + 15;
  std::vector<std::uint8_t> octets(40 + 8 + 15);
  emit_ipv6(ip, octets);
  emit_udp({.length = 8 + 15}, MutableOctets(octets).subspan(40));
  EXPECT_EQ(parse_frame(LinkType::kIpv6, octets).error(), FrameError::kTransportTooShort);
  EXPECT_EQ(parse_frame(LinkType::kIpv4, octets).error(), FrameError::kIpVersion);
}

TEST(RocePacket, AWrongUdpChecksumIsReportedNotRefused) {
  Prng prng(5);
  auto made = random_frame(prng, Network::kIpv4);
  made.frame.ethernet.reset();
  made.frame.udp.checksum = 1;
  auto octets = octets_of(made.frame);
  const std::size_t bth = octets.size() - made.trailer.size() - kIcrcOctets - made.transport.size();
  octets[bth - 1] ^= 1;
  const auto parsed = parse_frame(LinkType::kRawIp, octets);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->udp_checksum, ChecksumVerdict::kWrong);
  EXPECT_TRUE(parsed->icrc_right());
}

}  // namespace rrdma::wire::roce_packet_test
