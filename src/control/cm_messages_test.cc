// Messages of the connection manager: round trips, and the rejection of invalid values at the edge, so that
// no later code sees an invalid address.
#include "control/cm_messages.h"

#include <gtest/gtest.h>

namespace rrdma::control::cm_messages_test {

const wire::Gid kHere = wire::gid_of_ipv4({10, 0, 0, 1});
const wire::Gid kThere = wire::gid_of_ipv4({10, 0, 0, 2});

Octets body_of(const std::vector<std::uint8_t>& datagram) { return Octets(datagram).subspan(sizeof(Header)); }

template <typename Message>
std::optional<Message> carried(const Message& message) {
  const auto datagram = encode(message, 7);
  return decode<Message>(body_of(datagram));
}

CmConnect a_call() {
  CmConnect call{.number = 5};
  call.parameters.route = {.local = kHere, .remote = kThere, .interface_index = 3, .traffic_class = 8};
  call.parameters.service_id = wire::service_id_of({.port_space = wire::PortSpace::kTcp, .port = 7174});
  call.parameters.ip = wire::IpCmHeader{
      .version = wire::IpVersion::kIpv4, .source_port = 40000, .source = kHere, .destination = kThere};
  call.parameters.qp_type = cm::QpType::kUnreliable;
  call.parameters.qpn = wire::Qpn(0x30042);
  call.parameters.starting_psn = wire::Psn(0xabcdef);
  call.parameters.path_mtu = 3;
  call.parameters.private_data = std::vector<std::uint8_t>{1, 2, 3};
  return call;
}

TEST(CmMessages, ACallArrivesAsItWasMade) {
  const CmConnect call = a_call();
  const auto got = carried(call);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->number, 5u);
  EXPECT_EQ(got->parameters.route, call.parameters.route);
  EXPECT_EQ(got->parameters.ip, call.parameters.ip);
  EXPECT_EQ(got->parameters.qp_type, cm::QpType::kUnreliable);
  EXPECT_EQ(got->parameters.qpn, call.parameters.qpn);
  EXPECT_EQ(got->parameters.starting_psn, call.parameters.starting_psn);
  EXPECT_EQ(got->parameters.private_data, call.parameters.private_data);
}

TEST(CmMessages, EveryKindOfEventArrivesAsItself) {
  const std::vector<cm::EventDetails> kinds = {cm::ConnectRequest{.service_id = 9},
                                               cm::ConnectReply{.remote_qpn = wire::Qpn(4)},
                                               cm::Established{},
                                               cm::Rejected{.reason = wire::RejectReason::kStaleConnection},
                                               cm::Unreachable{wire::CmAttribute::kRep},
                                               cm::Disconnected{cm::DisconnectCause::kNoAnswer},
                                               cm::TimeWaitExit{},
                                               cm::LookupRequest{.service_id = 10},
                                               cm::LookupReply{.qkey = {77}}};
  ASSERT_EQ(kinds.size(), std::variant_size_v<cm::EventDetails>);
  for (const cm::EventDetails& details : kinds) {
    const CmEvent event{.number = 2, .event = {.id = {123}, .details = details}};
    const auto got = carried(event);
    ASSERT_TRUE(got) << details.index();
    EXPECT_EQ(got->event.id.value, 123u);
    EXPECT_EQ(got->event.details.index(), details.index());
  }
  const auto rejected = carried(CmEvent{.event = {.details = kinds[3]}});
  EXPECT_EQ(std::get<cm::Rejected>(rejected->event.details).reason, wire::RejectReason::kStaleConnection);
}

TEST(CmMessages, WhatAStandingConnectionIsComesBackWhole) {
  cm::EstablishedConnection connection{.id = {1}, .remote_id = {2}, .active = true};
  connection.response_timeout = seconds(4);
  connection.local_qpn = wire::Qpn(0x10001);
  const auto got = carried(CmRestore{.number = 1, .connection = connection});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->connection.response_timeout, seconds(4));
  EXPECT_EQ(got->connection.local_qpn, connection.local_qpn);
  EXPECT_TRUE(got->connection.active);
  EXPECT_FALSE(carried(CmEstablished{})->connection.has_value());
}

// Replaces the only occurrence of `from` in the body of a message.
std::vector<std::uint8_t> with(std::vector<std::uint8_t> datagram, std::vector<std::uint8_t> from,
                               std::vector<std::uint8_t> to) {
  const auto at = std::search(datagram.begin() + sizeof(Header), datagram.end(), from.begin(), from.end());
  EXPECT_NE(at, datagram.end());
  std::copy(to.begin(), to.end(), at);
  return datagram;
}

// The IP version, the source port and the start of the source address of a_call().
const std::vector<std::uint8_t> kIpHeader = {4, 0x40, 0x9c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

TEST(CmMessages, Version4WithAnAddressThatIsNotIpv4IsRefused) {
  const auto whole = encode(a_call(), 1);
  EXPECT_TRUE(decode<CmConnect>(body_of(whole)));
  auto v6 = kIpHeader;
  v6.back() = 0xfe;
  EXPECT_FALSE(decode<CmConnect>(body_of(with(whole, kIpHeader, v6))));

  CmLookUp question{.number = 5};
  question.parameters.ip = a_call().parameters.ip;
  const auto asked = encode(question, 1);
  EXPECT_TRUE(decode<CmLookUp>(body_of(asked)));
  EXPECT_FALSE(decode<CmLookUp>(body_of(with(asked, kIpHeader, v6))));
}

TEST(CmMessages, IpVersionsOtherThan4And6AreRefused) {
  for (const unsigned version : {0u, 3u, 5u, 7u, 255u}) {
    auto other = kIpHeader;
    other[0] = static_cast<std::uint8_t>(version);
    EXPECT_FALSE(decode<CmConnect>(body_of(with(encode(a_call(), 1), kIpHeader, other)))) << version;
  }
}

TEST(CmMessages, NumbersOf25BitsAndUnknownAlternativesAreRefused) {
  const std::vector<std::uint8_t> qpn = {0x42, 0x00, 0x03, 0x00};
  EXPECT_FALSE(decode<CmConnect>(body_of(with(encode(a_call(), 1), qpn, {0x42, 0x00, 0x03, 0x01}))));
  auto event = encode(CmEvent{.event = {.id = {0x01020304}, .details = cm::TimeWaitExit{}}}, 0);
  const std::vector<std::uint8_t> kind = {4, 3, 2, 1, 6};
  EXPECT_TRUE(decode<CmEvent>(body_of(event)));
  EXPECT_FALSE(decode<CmEvent>(body_of(with(event, kind, {4, 3, 2, 1, 9}))));
}

TEST(CmMessages, PrivateDataLongerThanItsFieldIsRefused) {
  const std::vector<std::uint8_t> data = {3, 1, 2, 3};
  EXPECT_FALSE(decode<CmConnect>(body_of(with(encode(a_call(), 1), data, {225, 1, 2, 3}))));
}

}  // namespace rrdma::control::cm_messages_test
