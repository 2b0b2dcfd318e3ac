#include "host/addresses/gid_choice.h"

#include <gtest/gtest.h>

namespace rrdma::host {
namespace {

GidEntry entry(std::uint32_t index, const wire::Gid& gid) {
  GidEntry made;
  made.gid = gid;
  made.index = index;
  made.valid = true;
  return made;
}

wire::Gid ipv6(std::uint8_t first, std::uint8_t second) {
  wire::Gid gid;
  gid.octets[0] = first;
  gid.octets[1] = second;
  gid.octets[15] = 1;
  return gid;
}

const wire::Gid kLinkLocal = ipv6(0xfe, 0x80), kGlobal = ipv6(0xfd, 0x09);
const wire::Gid kIpv4 = wire::gid_of_ipv4({10, 9, 0, 1});

TEST(GidChoice, NamesTheEntryThatFitsTheDestination) {
  const GidEntry table[] = {entry(0, kLinkLocal), entry(1, kIpv4), entry(2, kGlobal)};
  EXPECT_EQ(usable_gids_text(table, wire::gid_of_ipv4({10, 9, 0, 2})), "use 1 (10.9.0.1)");
  EXPECT_EQ(usable_gids_text(table, wire::Gid{}), "use 1 (10.9.0.1)");
  EXPECT_EQ(usable_gids_text(table, ipv6(0xfd, 0x10)), "use 2 (fd09::1)");
  EXPECT_EQ(usable_gids_text(table, ipv6(0xfe, 0x80)), "use 0 (fe80::1)");
}

TEST(GidChoice, OffersNoEmptyEntry) {
  GidEntry table[] = {entry(0, kLinkLocal), entry(1, kIpv4)};
  table[1].valid = false;
  EXPECT_EQ(usable_gids_text(table, wire::gid_of_ipv4({10, 9, 0, 2})), "use 0 (fe80::1)");
  table[0].valid = false;
  EXPECT_EQ(usable_gids_text(table, wire::Gid{}), "the device has no GID: give its interface an address");
}

}  // namespace
}  // namespace rrdma::host
