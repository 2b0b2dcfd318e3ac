// What goes into the control protocol and comes back is the same; what a program may say is kept within bounds.
#include "daemon/qp1/cm_translation.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace rrdma::daemon {
namespace {

const wire::Gid kHere = wire::gid_of_ipv4({10, 0, 0, 1});
const wire::Gid kThere = wire::gid_of_ipv4({10, 0, 0, 2});

cm::EstablishedConnection established() {
  return {
      .id = {0x1234},
      .remote_id = {0x5678},
      .route = {.local = kHere, .remote = kThere, .traffic_class = 8, .hop_limit = 63, .service_level = 2},
      .active = true,
      .qp_type = cm::QpType::kXrcTarget,
      .local_qpn = wire::Qpn(17),
      .remote_qpn = wire::Qpn(18),
      .send_psn = wire::Psn(19),
      .receive_psn = wire::Psn(20),
      .path_mtu = 5,
      .responder_resources = 3,
      .initiator_depth = 4,
      .retry_count = 6,
      .rnr_retry_count = 7,
      .ack_timeout = 18,
      .max_cm_retries = 15,
      .response_timeout = seconds(4),
      .transaction_id = 99,
      .local_ca_guid = 0xabc};
}

TEST(CmTranslation, KeepsAnEstablishedConnection) {
  const control::CmEstablished message = message_of(established());
  EXPECT_TRUE(message.present);
  // Twice through, as a daemon's death would take it.
  EXPECT_EQ(control::encode(message_of(connection_of(message)), 0), control::encode(message, 0));
  const cm::EstablishedConnection again = connection_of(message);
  EXPECT_EQ(again.route.remote, kThere);
  EXPECT_EQ(again.qp_type, cm::QpType::kXrcTarget);
  EXPECT_EQ(again.response_timeout.ns, seconds(4).ns);
}

TEST(CmTranslation, BoundsWhatAProgramClaimsToRestore) {
  control::CmEstablished message = message_of(established());
  message.qp_type = 200;
  message.ack_timeout = 255;
  message.response_timeout_ns = -1;
  const cm::EstablishedConnection low = connection_of(message);
  EXPECT_LE(static_cast<int>(low.qp_type), 3);
  EXPECT_LE(low.ack_timeout, cm::kTimeCodeMax);
  EXPECT_GT(low.response_timeout.ns, 0);
  message.response_timeout_ns = std::int64_t{1} << 62;
  EXPECT_LE(connection_of(message).response_timeout.ns, seconds(60).ns);
}

TEST(CmTranslation, HidesTheHeaderOfTheAddressesFromTheProgram) {
  cm::ConnectRequest request{.route = {.local = kHere, .remote = kThere}, .service_id = 0x01061c06};
  request.remote_qpn = wire::Qpn(5);
  request.responder_resources = 9;
  std::array<std::uint8_t, 92> octets{};
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::uint8_t>(i);
  cm::Event event{.id = {7},
                  .owner = (cm::OwnerToken{3} << 32) | 44,
                  .details = request,
                  .private_data = cm::PrivateData(octets)};
  const control::CmEvent plain = message_of(event);
  EXPECT_EQ(plain.kind, control::CmEventKind::kConnectRequest);
  EXPECT_EQ(plain.number, 44u);
  EXPECT_EQ(plain.connection, 7u);
  EXPECT_EQ(plain.terms.qpn, 5u);
  EXPECT_EQ(plain.terms.responder_resources, 9);
  EXPECT_EQ(plain.private_data.size(), octets.size());

  request.ip = wire::IpCmHeader{
      .version = wire::IpVersion::kIpv4, .source_port = 1000, .source = kThere, .destination = kHere};
  event.details = request;
  const control::CmEvent with_addresses = message_of(event);
  EXPECT_TRUE(with_addresses.addresses.present);
  EXPECT_EQ(with_addresses.addresses.source_port, 1000);
  ASSERT_EQ(with_addresses.private_data.size(), octets.size() - wire::kIpCmHeaderOctets);
  EXPECT_EQ(with_addresses.private_data.front(), wire::kIpCmHeaderOctets);
}

TEST(CmTranslation, TellsAPeerThatNeverAnsweredFromOneThatLeft) {
  cm::Event event{.id = {7},
                  .owner = 1,
                  .details = cm::Disconnected{.cause = cm::DisconnectCause::kNoAnswer},
                  .private_data = {}};
  EXPECT_EQ(message_of(event).status, 1);
  event.details = cm::Rejected{.reason = wire::RejectReason::kInvalidServiceId};
  EXPECT_EQ(message_of(event).kind, control::CmEventKind::kRejected);
  EXPECT_EQ(message_of(event).status, 8);
}

TEST(CmTranslation, CarriesAddressesOfCallsBothWays) {
  const control::CmAddresses absent;
  EXPECT_FALSE(header_of(absent).has_value());
  const auto header =
      header_of({.present = true, .ip_version = 4, .source = kHere, .destination = kThere, .source_port = 7});
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->version, wire::IpVersion::kIpv4);
  EXPECT_EQ(header->source, kHere);
  EXPECT_EQ(header->source_port, 7);
}

TEST(CmTranslation, HasAnErrnoForEveryError) {
  EXPECT_EQ(errno_of(cm::Error::kUnknownConnection), ENOENT);
  EXPECT_EQ(errno_of(cm::Error::kWrongState), EINVAL);
  EXPECT_EQ(errno_of(cm::Error::kAlreadyEstablished), EISCONN);
  EXPECT_EQ(errno_of(cm::Error::kTooManyConnections), ENOMEM);
  EXPECT_EQ(errno_of(cm::Error::kServiceInUse), EADDRINUSE);
  EXPECT_EQ(errno_of(cm::Error::kIdInUse), EEXIST);
}

}  // namespace
}  // namespace rrdma::daemon
