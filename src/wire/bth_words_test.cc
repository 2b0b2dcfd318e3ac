#include "wire/bth_words.h"

#include <gtest/gtest.h>

#include <array>

#include "base/prng.h"

namespace rrdma::wire::bth_words_test {

// Every field, with bits that its neighbours do not have.
Bth random_bth(Prng& prng) {
  const std::uint64_t bits = prng.next();
  return {.opcode = Opcode(static_cast<std::uint8_t>(prng.next())),
          .solicited = (bits & 1) != 0,
          .migration = (bits & 2) != 0,
          .pad = static_cast<std::uint8_t>(bits >> 2 & 3),
          .version = static_cast<std::uint8_t>(bits >> 4 & 0xf),
          .pkey = static_cast<std::uint16_t>(bits >> 8),
          .fecn = (bits >> 24 & 1) != 0,
          .becn = (bits >> 25 & 1) != 0,
          .reserved6 = static_cast<std::uint8_t>(bits >> 26 & 0x3f),
          .destination = Qpn(static_cast<std::uint32_t>(prng.next())),
          .ack_request = (bits >> 32 & 1) != 0,
          .reserved7 = static_cast<std::uint8_t>(bits >> 33 & 0x7f),
          .psn = Psn(static_cast<std::uint32_t>(prng.next()))};
}

TEST(BthWords, AreTheBytesOfTheHeader) {
  Prng prng(7);
  Bth parsed = random_bth(prng);
  for (int i = 0; i < 10'000; ++i) {
    const Bth bth = random_bth(prng);
    std::array<std::uint8_t, kBthOctets> octets{}, words{};
    emit_bth(bth, octets.data());
    emit_bth_words(bth, words.data());
    ASSERT_EQ(words, octets);
    parse_bth_words(octets.data(), parsed);
    ASSERT_EQ(parsed, bth);
  }
}

TEST(BthWords, HeadersAreCopiedToTheirLastByteAndNotBeyond) {
  std::array<std::uint8_t, kHeaderOctetsMax> from{};
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i + 1);
  for (std::size_t octets = kBthOctets; octets <= from.size(); octets += 4) {
    std::array<std::uint8_t, kHeaderOctetsMax + 4> to{};
    copy_headers(to.data(), from.data(), octets);
    for (std::size_t i = 0; i < to.size(); ++i) ASSERT_EQ(to[i], i < octets ? i + 1 : 0) << octets;
  }
}

}  // namespace rrdma::wire::bth_words_test
