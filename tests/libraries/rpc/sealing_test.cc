// The key exchange and the cipher of encrypted connections: what was sealed opens once, in its place, at the
// right end.
#include "lib/rpc/sealing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/rpc/handshake.h"

namespace rrdma::rpc::detail::sealing_test {

using Octets = std::vector<std::byte>;

Octets octets_of(std::string_view text) {
  const auto octets = std::as_bytes(std::span<const char>(text.data(), text.size()));
  return {octets.begin(), octets.end()};
}
Octets sealed(SealKey& key, std::uint64_t number, std::string_view text, std::string_view head = {}) {
  Octets into(text.size() + kSealTag);
  key.seal(number, octets_of(head), octets_of(text), into.data());
  return into;
}
bool opens(SealKey& key, std::uint64_t number, Octets octets, std::string_view head = {}) {
  return key.open(number, octets_of(head), octets);
}

TEST(Sealing, OpensOnlyWhatWasSealed) {
  Key base{};
  base[3] = std::byte{7};
  SealKey out(base), in(base);
  // Both sides of the change of the cipher's key.
  for (const std::uint64_t number : {0ULL, 1ULL, (1ULL << 20) - 1, 1ULL << 20, (1ULL << 44) + 5}) {
    Octets octets = sealed(out, number, "words", "head");
    EXPECT_TRUE(opens(in, number, octets, "head"));
    EXPECT_FALSE(opens(in, number + 1, octets, "head"));
    EXPECT_FALSE(opens(in, number ^ (1ULL << 30), octets, "head"));
    EXPECT_FALSE(opens(in, number, octets, "Head"));
    for (std::size_t at = 0; at < octets.size(); ++at) {
      Octets changed = octets;
      changed[at] ^= std::byte{1};
      EXPECT_FALSE(opens(in, number, changed, "head")) << at;
    }
    EXPECT_FALSE(opens(in, number, Octets(octets.begin(), octets.end() - 1), "head"));
    EXPECT_TRUE(in.open(number, octets_of("head"), octets));
    EXPECT_EQ(Octets(octets.begin(), octets.begin() + 5), octets_of("words"));
  }
  EXPECT_FALSE(opens(in, 0, Octets(kSealTag - 1)));
}

TEST(Sealing, TheSameWordsLookDifferentEachTime) {
  SealKey key(Key{});
  EXPECT_NE(sealed(key, 1, "words"), sealed(key, 2, "words"));
  EXPECT_NE(sealed(key, 1, "words"), sealed(key, 1 + (1ULL << 20), "words"));
}

// RFC 5869, test case 1; the first 32 bytes.
TEST(Sealing, DerivesKeysAsTheStandardSays) {
  const Octets secret(22, std::byte{0x0b});
  Octets salt(13);
  for (std::size_t i = 0; i < salt.size(); ++i) salt[i] = static_cast<std::byte>(i);
  std::string info(10, '\0');
  for (std::size_t i = 0; i < info.size(); ++i) info[i] = static_cast<char>(0xf0 + i);
  const Key key = derive_key(secret, salt, info);
  constexpr std::array<int, 8> kBegin = {0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a};
  for (std::size_t i = 0; i < kBegin.size(); ++i) EXPECT_EQ(std::to_integer<int>(key[i]), kBegin[i]) << i;
}

TEST(Sealing, KeysLeaveNothingInMemory) {
  SealKeys made;
  for (Key* key : {&made.frames_out, &made.frames_in, &made.offers_out, &made.offers_in})
    key->fill(std::byte{7});
  alignas(SealKeys) std::array<std::byte, sizeof(SealKeys)> place;
  std::destroy_at(new (place.data()) SealKeys(made));
  EXPECT_EQ(std::count(place.begin(), place.end(), std::byte{0}), std::ptrdiff_t{sizeof(SealKeys)});
}

struct Exchange {
  explicit Exchange(std::string_view client_secret = "s", std::string_view server_secret = "s")
      : client(Role::kClient, client_secret), server(Role::kServer, server_secret) {
    hello = emit(ClientHello());
    ServerHello words;
    words.max_calls = 1;
    words.key = server.key();
    words.proof = server.prove_server(hello, emit(words));
    answer = emit(words);
  }
  Handshake client, server;
  std::array<std::byte, kClientHelloSize> hello;
  std::array<std::byte, kEncryptedHelloSize> answer;
};

TEST(Handshakes, BothEndsGetTheSameKeys) {
  Exchange one;
  ASSERT_TRUE(one.client.check_server(one.hello, one.answer));
  const auto client = one.client.client_keys(one.server.key());
  const auto server = one.server.server_keys(one.client.client_body());
  ASSERT_TRUE(client && server);
  EXPECT_EQ(client->frames_out, server->frames_in);
  EXPECT_EQ(client->frames_in, server->frames_out);
  EXPECT_EQ(client->offers_out, server->offers_in);
  EXPECT_EQ(client->offers_in, server->offers_out);
  EXPECT_NE(client->frames_out, client->frames_in);
  EXPECT_NE(client->offers_out, client->frames_out);
  Exchange other;
  ASSERT_TRUE(other.client.check_server(other.hello, other.answer));
  EXPECT_NE(other.client.client_keys(other.server.key())->frames_out, client->frames_out);
  EXPECT_FALSE(other.server.server_keys(one.client.client_body())) << "a body from another connection";
}

TEST(Handshakes, AnotherSecretIsNoticedByBothEnds) {
  Exchange one("s", "t");
  EXPECT_FALSE(one.client.check_server(one.hello, one.answer));
  EXPECT_FALSE(one.server.server_keys(one.client.client_body()));
}

TEST(Handshakes, EveryByteCounts) {
  Exchange one;
  for (std::size_t at = 0; at < one.answer.size(); ++at) {
    auto changed = one.answer;
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(one.client.check_server(one.hello, changed)) << at;
  }
  ASSERT_TRUE(one.client.check_server(one.hello, one.answer));
  const auto body = one.client.client_body();
  for (std::size_t at = 0; at < body.size(); ++at) {
    auto changed = body;
    changed[at] ^= std::byte{1};
    EXPECT_FALSE(one.server.server_keys(changed)) << at;
  }
  EXPECT_FALSE(one.server.server_keys(std::span(body).first(body.size() - 1)));
}

// With such a key, the result of X25519 would not depend on this end.
TEST(Handshakes, AKeyOfSmallOrderGivesNoKeys) {
  Exchange one;
  ASSERT_TRUE(one.client.check_server(one.hello, one.answer));
  EXPECT_FALSE(one.client.client_keys(Key{}));
}

}  // namespace rrdma::rpc::detail::sealing_test
