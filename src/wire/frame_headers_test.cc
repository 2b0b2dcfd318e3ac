// Ethernet, IPv4, IPv6, GRH and UDP headers: known bytes, refusals with their reason, and round trips of
// random values through emit and parse.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "wire/ethernet.h"
#include "wire/grh.h"
#include "wire/internet_checksum.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/udp.h"

namespace rrdma::wire::frame_headers_test {

constexpr int kRounds = 2000;

template <std::size_t N>
void randomise(Prng& prng, std::array<std::uint8_t, N>& octets) {
  for (auto& octet : octets) octet = static_cast<std::uint8_t>(prng.next());
}

template <typename T>
T random_number(Prng& prng) {
  return static_cast<T>(prng.next());
}

TEST(Ethernet, ReadsAPlainHeader) {
  const std::vector<std::uint8_t> octets = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0xaa};
  const auto header = parse_ethernet(octets);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->destination, (MacAddress{{1, 2, 3, 4, 5, 6}}));
  EXPECT_EQ(header->source, (MacAddress{{7, 8, 9, 10, 11, 12}}));
  EXPECT_FALSE(header->vlan.has_value());
  EXPECT_EQ(header->ether_type, kEtherTypeIpv4);
  EXPECT_EQ(header->octets(), 14U);
}

TEST(Ethernet, ReadsAVlanTag) {
  const std::vector<std::uint8_t> octets = {1,  2,  3,  4,    5,    6,    7,    8,    9,
                                            10, 11, 12, 0x81, 0x00, 0xb0, 0x07, 0x89, 0x15};
  const auto header = parse_ethernet(octets);
  ASSERT_TRUE(header.ok());
  ASSERT_TRUE(header->vlan.has_value());
  EXPECT_EQ(*header->vlan, (VlanTag{.priority = 5, .drop_eligible = true, .id = 7}));
  EXPECT_EQ(header->ether_type, kEtherTypeRoceV1);
  EXPECT_EQ(header->octets(), 18U);
}

TEST(Ethernet, RefusesWhatIsShortAndWhatIs802Dot3) {
  std::vector<std::uint8_t> octets(14, 0);
  EXPECT_EQ(parse_ethernet(Octets(octets).first(13)).error(), FrameError::kEthernetTooShort);
  EXPECT_EQ(parse_ethernet(octets).error(), FrameError::kNotEthernetII);
  octets[12] = 0x81;
  EXPECT_EQ(parse_ethernet(octets).error(), FrameError::kEthernetTooShort) << "a tag without its EtherType";
}

TEST(Ethernet, ParseInvertsEmit) {
  Prng prng(1);
  for (int round = 0; round < kRounds; ++round) {
    EthernetHeader header;
    randomise(prng, header.destination.octets);
    randomise(prng, header.source.octets);
    if (prng.below(2) == 0) {
      header.vlan = VlanTag{.priority = static_cast<std::uint8_t>(prng.below(8)),
                            .drop_eligible = prng.below(2) == 0,
                            .id = static_cast<std::uint16_t>(prng.below(4096))};
    }
    do {
      header.ether_type = static_cast<std::uint16_t>(prng.between(kEtherTypeMin, 0xffff));
    } while (header.ether_type == kEtherTypeVlan);
    std::array<std::uint8_t, 18> octets{};
    const std::size_t written = emit_ethernet(header, octets);
    const auto parsed = parse_ethernet(Octets(octets).first(written));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, header);
  }
}

// The example of RFC 1071, section 3.
TEST(InternetChecksum, AddsWordsWithEndAroundCarry) {
  const std::uint8_t octets[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  InternetChecksum sum;
  sum.add(octets);
  EXPECT_EQ(sum.folded(), 0xddf2);
}

TEST(InternetChecksum, DoesNotCareHowThePiecesAreCut) {
  Prng prng(2);
  std::vector<std::uint8_t> octets(257);
  for (auto& octet : octets) octet = random_number<std::uint8_t>(prng);
  InternetChecksum whole;
  whole.add(octets);
  for (int round = 0; round < 200; ++round) {
    InternetChecksum pieces;
    Octets rest = octets;
    while (!rest.empty()) {
      const std::size_t take = prng.between(0, std::min<std::size_t>(rest.size(), 9));
      pieces.add(rest.first(take));
      rest = rest.subspan(take);
    }
    EXPECT_EQ(pieces.folded(), whole.folded());
  }
}

Ipv4Header random_ipv4(Prng& prng) {
  Ipv4Header header;
  header.tos = random_number<std::uint8_t>(prng);
  header.identification = random_number<std::uint16_t>(prng);
  header.dont_fragment = prng.below(2) == 0;
  header.ttl = random_number<std::uint8_t>(prng);
  header.protocol = random_number<std::uint8_t>(prng);
  randomise(prng, header.source.octets);
  randomise(prng, header.destination.octets);
  header.options_octets = static_cast<std::uint8_t>(4 * prng.below(11));
  for (std::size_t at = 0; at < header.options_octets; ++at)
    header.options[at] = random_number<std::uint8_t>(prng);
  header.total_length = static_cast<std::uint16_t>(header.octets() + prng.below(32));
  return header;
}

TEST(Ipv4, ParseInvertsEmit) {
  Prng prng(3);
  for (int round = 0; round < kRounds; ++round) {
    const Ipv4Header header = random_ipv4(prng);
    std::vector<std::uint8_t> octets(header.total_length + prng.below(8));
    EXPECT_EQ(emit_ipv4(header, octets), header.octets());
    const auto parsed = parse_ipv4(octets);
    ASSERT_TRUE(parsed.ok()) << describe(parsed.error());
    EXPECT_EQ(*parsed, header);
  }
}

// A well-known textbook header, with checksum 0xb861.
TEST(Ipv4, MakesTheChecksumOfAKnownHeader) {
  Ipv4Header header;
  header.total_length = 0x73;
  header.identification = 0;
  header.source = {{192, 168, 0, 1}};
  header.destination = {{192, 168, 0, 199}};
  std::array<std::uint8_t, 20> octets{};
  emit_ipv4(header, octets);
  EXPECT_EQ(load_be16(octets.data() + 10), 0xb861);
}

struct Ipv4Octets {
  std::vector<std::uint8_t> octets;

  Ipv4Octets() : octets(40) {
    Ipv4Header header;
    header.total_length = 40;
    emit_ipv4(header, octets);
  }
  // Changes a byte and corrects the checksum, so that only the change can be refused.
  FrameError refusal_with(std::size_t at, std::uint8_t value) {
    octets[at] = value;
    store_be16(octets.data() + 10, 0);
    InternetChecksum sum;
    sum.add(Octets(octets).first(20));
    store_be16(octets.data() + 10, sum.inverted());
    return parse_ipv4(octets).error();
  }
};

TEST(Ipv4, RefusesWithTheReason) {
  EXPECT_EQ(parse_ipv4(Octets(Ipv4Octets().octets).first(19)).error(), FrameError::kIpTooShort);
  EXPECT_EQ(Ipv4Octets().refusal_with(0, 0x65), FrameError::kIpVersion);
  EXPECT_EQ(Ipv4Octets().refusal_with(0, 0x44), FrameError::kIpHeaderLength);
  EXPECT_EQ(Ipv4Octets().refusal_with(0, 0x4f), FrameError::kIpHeaderLength) << "60 octets of 40";
  EXPECT_EQ(Ipv4Octets().refusal_with(3, 19), FrameError::kIpLengthTooSmall);
  EXPECT_EQ(Ipv4Octets().refusal_with(3, 41), FrameError::kIpLengthBeyondFrame);
  EXPECT_EQ(Ipv4Octets().refusal_with(6, 0x80), FrameError::kIpReservedFlag);
  EXPECT_EQ(Ipv4Octets().refusal_with(6, 0x20), FrameError::kIpFragment) << "more fragments";
  EXPECT_EQ(Ipv4Octets().refusal_with(7, 0x01), FrameError::kIpFragment) << "an offset";
  Ipv4Octets wrong;
  wrong.octets[15] ^= 1;
  EXPECT_EQ(parse_ipv4(wrong.octets).error(), FrameError::kIpChecksum);
}

TEST(Ipv6, ParseInvertsEmit) {
  Prng prng(4);
  for (int round = 0; round < kRounds; ++round) {
    Ipv6Header header;
    header.traffic_class = random_number<std::uint8_t>(prng);
    header.flow_label = random_number<std::uint32_t>(prng) & kFlowLabelMask;
    header.payload_length = static_cast<std::uint16_t>(prng.below(64));
    header.hop_limit = random_number<std::uint8_t>(prng);
    randomise(prng, header.source.octets);
    randomise(prng, header.destination.octets);
    std::vector<std::uint8_t> octets(kIpv6Octets + header.payload_length + prng.below(8));
    EXPECT_EQ(emit_ipv6(header, octets), kIpv6Octets);
    const auto parsed = parse_ipv6(octets);
    ASSERT_TRUE(parsed.ok()) << describe(parsed.error());
    EXPECT_EQ(*parsed, header);
  }
}

TEST(Ipv6, RefusesWithTheReason) {
  std::vector<std::uint8_t> octets(60);
  Ipv6Header header;
  header.payload_length = 20;
  emit_ipv6(header, octets);
  EXPECT_EQ(parse_ipv6(Octets(octets).first(39)).error(), FrameError::kIpTooShort);
  EXPECT_EQ(parse_ipv6(Octets(octets).first(59)).error(), FrameError::kIpLengthBeyondFrame);
  for (const int extension : {0, 43, 44, 50, 51, 60, 135, 139, 140}) {
    octets[6] = static_cast<std::uint8_t>(extension);
    EXPECT_EQ(parse_ipv6(octets).error(), FrameError::kIpExtensionHeader) << extension;
  }
  octets[0] = 0x45;
  EXPECT_EQ(parse_ipv6(octets).error(), FrameError::kIpVersion);
}

TEST(Grh, ParseInvertsEmit) {
  Prng prng(5);
  for (int round = 0; round < kRounds; ++round) {
    Grh grh;
    grh.traffic_class = random_number<std::uint8_t>(prng);
    grh.flow_label = random_number<std::uint32_t>(prng) & 0xfffff;
    grh.payload_length = static_cast<std::uint16_t>(prng.below(64));
    grh.next_header = random_number<std::uint8_t>(prng);
    grh.hop_limit = random_number<std::uint8_t>(prng);
    randomise(prng, grh.source.octets);
    randomise(prng, grh.destination.octets);
    std::vector<std::uint8_t> octets(kGrhOctets + grh.payload_length + prng.below(8));
    EXPECT_EQ(emit_grh(grh, octets), kGrhOctets);
    const auto parsed = parse_grh(octets);
    ASSERT_TRUE(parsed.ok()) << describe(parsed.error());
    EXPECT_EQ(*parsed, grh);
  }
}

TEST(Grh, AreaOfAnIpv4DatagramHoldsTheHeaderInItsSecondHalf) {
  Prng prng(6);
  Ipv4Header header = random_ipv4(prng);
  header.options_octets = 8;
  std::array<std::uint8_t, kGrhOctets> area;
  area.fill(0xee);
  EXPECT_EQ(emit_grh_area(header, area), kGrhOctets);
  for (std::size_t at = 0; at < 20; ++at) EXPECT_EQ(area[at], 0);
  EXPECT_EQ(area[20], 0x45);
  EXPECT_TRUE(std::equal(header.source.octets.begin(), header.source.octets.end(), area.begin() + 32));
}

TEST(Udp, ParseInvertsEmit) {
  Prng prng(7);
  for (int round = 0; round < kRounds; ++round) {
    UdpHeader header{.source = random_number<std::uint16_t>(prng),
                     .destination = random_number<std::uint16_t>(prng),
                     .length = static_cast<std::uint16_t>(prng.between(8, 100)),
                     .checksum = random_number<std::uint16_t>(prng)};
    std::vector<std::uint8_t> octets(header.length);
    EXPECT_EQ(emit_udp(header, octets), kUdpOctets);
    const auto parsed = parse_udp(octets);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, header);
    octets.push_back(0);
    EXPECT_EQ(parse_udp(octets).error(), FrameError::kUdpLength);
  }
  EXPECT_EQ(parse_udp(std::vector<std::uint8_t>(7)).error(), FrameError::kUdpTooShort);
}

// Derived by hand. IPv4 10.0.0.1 -> 10.0.0.2, ports 1 -> 2, payload "ab" (length 10):
//   0a00+0001 + 0a00+0002 + 0011 + 000a + 0001+0002+000a + 6162 = 758d, inverted 8a72.
TEST(Udp, MakesTheChecksumOfKnownDatagrams) {
  const std::uint8_t payload[] = {'a', 'b'};
  const UdpHeader header{.source = 1, .destination = 2, .length = 10, .checksum = 0};
  EXPECT_EQ(udp_checksum(Ipv4Address{{10, 0, 0, 1}}, Ipv4Address{{10, 0, 0, 2}}, header, payload), 0x8a72);
  // The same sum over IPv6: the address words are 0a00, 0001 and 0a00, 0002; all others are zero.
  const Ipv6Address source{{0x0a, 0, 0, 1}};
  const Ipv6Address destination{{0x0a, 0, 0, 2}};
  EXPECT_EQ(udp_checksum(source, destination, header, payload), 0x8a72);
}

TEST(Udp, AChecksumOfZeroIsSentAsOnes) {
  // The payload is the inverse of the sum of the rest, so that the total is 0xffff.
  const UdpHeader header{.source = 1, .destination = 2, .length = 10, .checksum = 0};
  const std::uint8_t none[] = {0, 0};
  const std::uint16_t rest = udp_checksum(Ipv4Address{}, Ipv4Address{}, header, none);
  const std::uint8_t payload[] = {static_cast<std::uint8_t>(rest >> 8), static_cast<std::uint8_t>(rest)};
  EXPECT_EQ(udp_checksum(Ipv4Address{}, Ipv4Address{}, header, payload), 0xffff);
}

}  // namespace rrdma::wire::frame_headers_test
