#include "wire/mad.h"

#include <gtest/gtest.h>

#include <array>

#include "base/prng.h"

namespace rrdma::wire::mad_test {

TEST(MadHeader, StandsWhereTheSpecificationPutsIt) {
  std::array<std::uint8_t, kMadOctets> mad{};
  emit_mad_header({.management_class = 0x07,
                   .class_version = 2,
                   .method = 3,
                   .status = 0x0405,
                   .class_specific = 0x0607,
                   .transaction_id = 0x08090a0b0c0d0e0f,
                   .attribute_id = 0x1011,
                   .attribute_modifier = 0x14151617},
                  mad);
  const std::array<std::uint8_t, kMadHeaderOctets> expected{
      1, 7, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 0x00, 0x00, 20, 21, 22, 23};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), mad.begin()));
}

TEST(MadHeader, ParseUndoesEmit) {
  Prng prng(1);
  for (int round = 0; round < 1000; ++round) {
    const MadHeader header{.management_class = static_cast<std::uint8_t>(prng.next()),
                           .class_version = static_cast<std::uint8_t>(prng.next()),
                           .method = static_cast<std::uint8_t>(prng.next()),
                           .status = static_cast<std::uint16_t>(prng.next()),
                           .class_specific = static_cast<std::uint16_t>(prng.next()),
                           .transaction_id = prng.next(),
                           .attribute_id = static_cast<std::uint16_t>(prng.next()),
                           .attribute_modifier = static_cast<std::uint32_t>(prng.next())};
    std::array<std::uint8_t, kMadOctets> mad{};
    emit_mad_header(header, mad);
    const auto parsed = parse_mad_header(mad);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, header);
  }
}

TEST(MadHeader, RefusesOtherLengthsAndVersions) {
  std::array<std::uint8_t, kMadOctets + 1> octets{};
  octets[0] = kMadBaseVersion;
  for (std::size_t length = 0; length <= octets.size(); ++length) {
    const auto parsed = parse_mad_header(Octets(octets).first(length));
    EXPECT_EQ(parsed.ok(), length == kMadOctets);
    if (!parsed.ok()) {
      EXPECT_EQ(parsed.error(), MadError::kWrongLength);
    }
  }
  octets[0] = 2;
  EXPECT_EQ(parse_mad_header(Octets(octets).first(kMadOctets)).error(), MadError::kUnknownBaseVersion);
}

TEST(Bits, AgreeWithABitByBitReading) {
  Prng prng(2);
  for (int round = 0; round < 20'000; ++round) {
    std::array<std::uint8_t, 12> octets{};
    const auto width = static_cast<unsigned>(prng.between(1, 32));
    const auto bit = static_cast<unsigned>(prng.below(8));
    const std::size_t octet = prng.below(octets.size() - (bit + width + 7) / 8 + 1);
    const auto value = static_cast<std::uint32_t>(prng.next() & ((std::uint64_t{1} << width) - 1));
    store_bits(octets, octet, bit, width, value);
    EXPECT_EQ(load_bits(octets, octet, bit, width), value);
    std::uint64_t walked = 0;
    unsigned set_outside = 0;
    for (std::size_t position = 0; position < octets.size() * 8; ++position) {
      const bool one = (octets[position / 8] >> (7 - position % 8) & 1) != 0;
      const bool inside = position >= octet * 8 + bit && position < octet * 8 + bit + width;
      if (inside) walked = walked << 1 | (one ? 1 : 0);
      if (!inside && one) ++set_outside;
    }
    EXPECT_EQ(walked, value);
    EXPECT_EQ(set_outside, 0u);
  }
}

}  // namespace rrdma::wire::mad_test
