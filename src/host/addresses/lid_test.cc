// The addresses that LIDs name, and the sentences for LIDs that name none.
#include "host/addresses/lid.h"

#include <gtest/gtest.h>

namespace rrdma::host::lid_test {

using Octets = std::array<std::uint8_t, 4>;

// The address as bytes; a refusal fails the test.
Octets named(Octets own, unsigned prefix_length, std::uint16_t lid) {
  const auto address = address_of_lid({own}, prefix_length, lid);
  EXPECT_TRUE(address.ok());
  return address ? address->octets : Octets{};
}

LidRefusal refused(Octets own, unsigned prefix_length, std::uint16_t lid) {
  const auto address = address_of_lid({own}, prefix_length, lid);
  EXPECT_FALSE(address.ok());
  return address ? LidRefusal{} : address.error();
}

GidEntry entry(Octets address, std::uint32_t index, std::uint8_t prefix_length) {
  return {.gid = wire::gid_of_ipv4(address), .index = index, .prefix_length = prefix_length, .valid = true};
}

GidEntry link_local() {
  GidEntry made{.index = 0, .prefix_length = 64, .valid = true};
  made.gid.octets = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return made;
}

TEST(Lid, NamesANeighbourOfTheSubnet) {
  EXPECT_EQ(named({10, 77, 0, 2}, 24, 0x0001), (Octets{10, 77, 0, 1}));
  EXPECT_EQ(named({192, 168, 200, 5}, 24, 0xc8fe), (Octets{192, 168, 200, 254}));
  EXPECT_EQ(named({172, 16, 3, 4}, 16, 0xfffe), (Octets{172, 16, 255, 254}));
}

TEST(Lid, TakesTheUpperHalfOfItsOwnAddressInASubnetWithMoreThan16Bits) {
  EXPECT_EQ(named({127, 0, 0, 1}, 8, 0x0001), (Octets{127, 0, 0, 1}));
  EXPECT_EQ(named({127, 0, 0, 1}, 8, 0x0002), (Octets{127, 0, 0, 2}));
  EXPECT_EQ(named({10, 6, 0, 2}, 8, 0xffff), (Octets{10, 6, 255, 255}));
  EXPECT_EQ(named({10, 6, 0, 2}, 0, 0x0001), (Octets{10, 6, 0, 1}));
}

TEST(Lid, NamesItselfWhateverTheSubnet) {
  for (const unsigned prefix_length : {0u, 8u, 16u, 24u, 31u, 32u}) {
    EXPECT_EQ(named({10, 77, 0, 255}, prefix_length, 0x00ff), (Octets{10, 77, 0, 255})) << prefix_length;
  }
}

TEST(Lid, ZeroIsNobodys) {
  EXPECT_EQ(refused({10, 77, 0, 2}, 24, 0), LidRefusal::kZero);
  EXPECT_EQ(refused({10, 77, 0, 0}, 8, 0), LidRefusal::kZero) << "not even its own";
}

TEST(Lid, OutsideTheSubnetIsElsewhere) {
  EXPECT_EQ(refused({10, 77, 0, 2}, 24, 0x0101), LidRefusal::kElsewhere);
  EXPECT_EQ(refused({10, 77, 0, 2}, 30, 0x0005), LidRefusal::kElsewhere);
  EXPECT_EQ(refused({10, 77, 0, 2}, 32, 0x0001), LidRefusal::kElsewhere);
}

TEST(Lid, SubnetAndBroadcastAddressesAreNoHosts) {
  EXPECT_EQ(refused({10, 77, 1, 2}, 24, 0x0100), LidRefusal::kNoHost);
  EXPECT_EQ(refused({10, 77, 1, 2}, 24, 0x01ff), LidRefusal::kNoHost);
  EXPECT_EQ(named({10, 77, 1, 2}, 31, 0x0103), (Octets{10, 77, 1, 3})) << "a link between two has neither";
}

TEST(Lid, PortHasThatOfItsFirstIpv4Address) {
  GidEntry gone = entry({10, 1, 2, 3}, 1, 24);
  gone.valid = false;
  EXPECT_EQ(lid_of_port({link_local(), gone, entry({10, 77, 4, 5}, 2, 24), entry({10, 78, 6, 7}, 3, 24)}),
            0x0405);
  EXPECT_EQ(lid_of_port({link_local()}), 0);
  EXPECT_EQ(lid_of_port({}), 0);
}

TEST(Lid, RouteSaysWhatAGrhWould) {
  const auto route = route_by_lid({link_local(), entry({10, 77, 0, 2}, 1, 24)}, "eth0", 7);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->remote, wire::gid_of_ipv4({10, 77, 0, 7}));
  EXPECT_EQ(route->local_gid_index, 1u);
}

// The sentence of a refusal must contain the given words.
void expect_sentence(const std::vector<GidEntry>& gids, std::uint16_t lid,
                     std::initializer_list<const char*> words) {
  constexpr std::size_t kSentenceMax = 447;  // limit of the explain channel
  const auto route = route_by_lid(gids, "eth0", lid);
  ASSERT_FALSE(route.ok());
  EXPECT_LE(route.error().size(), kSentenceMax);
  for (const char* word : words)
    EXPECT_NE(route.error().find(word), std::string::npos) << word << ": " << route.error();
}

TEST(Lid, RefusalSaysWhichAndWhyAndWhatToDo) {
  const GidEntry own = entry({10, 77, 0, 2}, 1, 24);
  expect_sentence({own}, 0x0107, {"dlid 0x107", "10.77.1.7", "outside", "10.77.0.2/24", "is_global = 1"});
  expect_sentence({own}, 0x00ff, {"dlid 0xff", "10.77.0.255", "no host", "10.77.0.2/24"});
  expect_sentence({own}, 0, {"dlid is 0", "rrdma run --lid"});
  expect_sentence({link_local()}, 7, {"dlid 0x7", "eth0 has no IPv4 address"});
}

}  // namespace rrdma::host::lid_test
