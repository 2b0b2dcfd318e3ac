#include "preload/rdma_cm/refusals.h"

#include <gtest/gtest.h>

namespace rrdma::rdma_cm::refusals_test {

IpAddress server() {
  IpAddress address;
  address.family = Family::kIpv4;
  address.gid.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2};
  address.port = 7174;
  return address;
}

TEST(Refusals, EveryReasonNamesPeerReasonAndRemedy) {
  int known = 0;
  for (unsigned code = 1; code <= 40; ++code) {
    const auto reason = static_cast<wire::RejectReason>(code);
    const std::string sentence = rejection_sentence(server(), reason);
    EXPECT_TRUE(sentence.starts_with("10.9.0.2 port 7174 rejected the connection with reason " +
                                     std::to_string(code) + ": " + std::string(wire::describe(reason)) +
                                     ". "))
        << sentence;
    EXPECT_EQ(sentence.back(), '.');
    known += wire::describe(reason) != wire::describe(static_cast<wire::RejectReason>(0));
  }
  EXPECT_EQ(known, 34);
}

TEST(Refusals, LookUpsAndSilence) {
  EXPECT_EQ(
      look_up_sentence(server(), wire::SidrStatus::kServiceNotSupported),
      "10.9.0.2 port 7174 refused the look-up of its queue pair with status 1: service ID not supported: "
      "nobody "
      "listens there. Start the server there, or give its address and port; both sides need the same port "
      "space.");
  EXPECT_NE(unreachable_sentence(server()).find("`rrdma doctor --peer 10.9.0.2`"), std::string::npos);
}

}  // namespace rrdma::rdma_cm::refusals_test
