#include "base/keys/key_source.h"

#include <gtest/gtest.h>

namespace rrdma::key_source_test {

// From the reference vectors of SipHash-2-4: key 00 01 .. 0f, message 00 01 .. 07.
TEST(KeySource, TheHashIsSiphash) {
  EXPECT_EQ(keyed_hash(0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x0706050403020100), 0x93f5f5799a932462u);
}

TEST(KeySource, ASecretGivesOneSequence) {
  KeySource one(5), same(5), other(6);
  int equal = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t key = one.next();
    EXPECT_EQ(key, same.next());
    equal += key == other.next();
  }
  EXPECT_LE(equal, 1);
}

}  // namespace rrdma::key_source_test
