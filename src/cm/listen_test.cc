// Listeners: the choice of the listener for a call, refusals and their reasons, lookups, floods.
#include <gtest/gtest.h>

#include "cm/test_pair.h"

namespace rrdma::cm::listen_test {

using Listen = TestPair;
using wire::RejectReason;
using wire::SidrStatus;
using Kind = AddressMatch::Kind;

TEST_F(Listen, AServiceNobodyOffersIsRefused) {
  ConnectParameters parameters = test_call(0, 1, 17);
  parameters.service_id = kTestService + 1;
  ASSERT_TRUE(caller().connect(network->now(), parameters).ok());
  settle();
  EXPECT_EQ(expect_event<Rejected>(0).second.reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(server().connections(), 0u);
  EXPECT_EQ(server().counters().refused, 1u);
}

TEST(ListenerTable, TheMostSpecificListenerTakesTheCall) {
  ListenerTable table;
  const auto add = [&](OwnerToken owner, Kind kind, wire::Gid address = {}) {
    return table.create({.owner = owner, .service_id = 7, .match = {.kind = kind, .address = address}}, 100);
  };
  ASSERT_TRUE(add(1, Kind::kEverything).ok());
  ASSERT_TRUE(add(2, Kind::kAnyIp).ok());
  const auto any_v4 = add(3, Kind::kAnyIpv4);
  ASSERT_TRUE(any_v4.ok());
  ASSERT_TRUE(add(4, Kind::kExactIp, test_gid(1)).ok());
  ASSERT_TRUE(add(5, Kind::kExactIp, test_gid(2)).ok());
  EXPECT_EQ(add(6, Kind::kExactIp, test_gid(2)).error(), Error::kServiceInUse);
  EXPECT_EQ(add(6, Kind::kAnyIp).error(), Error::kServiceInUse);

  const auto owner_of = [&](const std::optional<wire::IpCmHeader>& ip) {
    const Listener* listener = table.match(7, ip);
    return listener == nullptr ? 0 : listener->parameters.owner;
  };
  using wire::IpVersion;
  EXPECT_EQ(owner_of(wire::IpCmHeader{.version = IpVersion::kIpv4, .destination = test_gid(1)}), 4u);
  EXPECT_EQ(owner_of(wire::IpCmHeader{.version = IpVersion::kIpv4, .destination = test_gid(2)}), 5u);
  EXPECT_EQ(owner_of(wire::IpCmHeader{.version = IpVersion::kIpv4, .destination = test_gid(3)}), 3u);
  EXPECT_EQ(owner_of(wire::IpCmHeader{.version = IpVersion::kIpv6, .destination = {{0xfd}}}), 2u);
  EXPECT_EQ(owner_of(std::nullopt), 1u);
  EXPECT_EQ(table.match(8, std::nullopt), nullptr);
  table.destroy(*table.find(*any_v4));
  EXPECT_EQ(owner_of(wire::IpCmHeader{.version = IpVersion::kIpv4, .destination = test_gid(3)}), 2u);
  EXPECT_EQ(table.size(), 4u);
}

TEST_F(Listen, ACallWithoutAnIpHeaderReachesOnlyWhoTakesEverything) {
  ASSERT_TRUE(server().stop_listening(network->now(), {1}).ok());
  ASSERT_TRUE(server().listen({.service_id = kTestService, .match = {.kind = Kind::kAnyIp}}).ok());
  ConnectParameters parameters = test_call(0, 1, 17);
  parameters.ip.reset();
  const std::vector<std::uint8_t> native(92, 0xff);
  parameters.private_data = native;
  ASSERT_TRUE(caller().connect(network->now(), parameters).ok());
  settle();
  EXPECT_EQ(expect_event<Rejected>(0).second.reason, RejectReason::kInvalidServiceId);
  ASSERT_TRUE(server().listen({.service_id = kTestService}).ok());
  parameters.qpn = wire::Qpn(18);
  ASSERT_TRUE(caller().connect(network->now(), parameters).ok());
  settle();
  const auto [event, request] = expect_event<ConnectRequest>(1);
  EXPECT_FALSE(request.ip.has_value());
  EXPECT_EQ(event.private_data.view().front(), 0xff);
}

TEST_F(Listen, RequestsThatMakeNoSenseAreRefusedWithTheReason) {
  std::vector<wire::CmRej> rejections;
  network->filter = [&](unsigned, const wire::CmMad& mad) {
    if (const auto* rej = std::get_if<wire::CmRej>(&mad.message)) rejections.push_back(*rej);
    return true;
  };
  const wire::CmReq good{.local_comm_id = {7},
                         .service_id = kTestService,
                         .local_qpn = wire::Qpn(17),
                         .path_mtu = 3,
                         .primary = {.local_gid = test_gid(0), .remote_gid = test_gid(1)}};
  const auto reason_of = [&](wire::CmReq req) {
    rejections.clear();
    network->inject(0, 1, {.message = req});
    return rejections.empty() ? RejectReason{} : rejections.front().reason;
  };
  auto bad = good;
  bad.transport = wire::CmTransport::kReliableDatagram;
  EXPECT_EQ(reason_of(bad), RejectReason::kInvalidTransportType);
  bad.transport = wire::CmTransport::kExtended;
  bad.extended_transport = 2;
  EXPECT_EQ(reason_of(bad), RejectReason::kInvalidTransportType);
  bad = good;
  bad.path_mtu = 0;
  EXPECT_EQ(reason_of(bad), RejectReason::kInvalidPathMtu);
  bad.path_mtu = 6;
  EXPECT_EQ(reason_of(bad), RejectReason::kInvalidPathMtu);
  bad = good;
  bad.primary.local_gid = test_gid(2);
  EXPECT_EQ(reason_of(bad), RejectReason::kInvalidGid);
  EXPECT_EQ(rejections.front().info_length, 16);
  EXPECT_TRUE(std::equal(rejections.front().info.begin(), rejections.front().info.begin() + 16,
                         test_gid(1).octets.begin()));
  bad = good;
  bad.primary.remote_gid = test_gid(2);
  EXPECT_EQ(reason_of(bad), RejectReason::kInvalidGid);
  bad = good;
  bad.local_comm_id = {0};
  EXPECT_EQ(reason_of(bad), RejectReason::kInvalidCommId);
  EXPECT_EQ(server().connections(), 0u);
  EXPECT_EQ(reason_of(good), RejectReason{});
  EXPECT_EQ(server().connections(), 1u);
}

TEST_F(Listen, BeyondTheBacklogCallersAreTurnedAwayOrIgnored) {
  for (const bool reject_overflow : {true, false}) {
    start({});
    ASSERT_TRUE(server().stop_listening(network->now(), {1}).ok());
    ASSERT_TRUE(
        server().listen({.service_id = kTestService, .backlog = 3, .reject_overflow = reject_overflow}).ok());
    for (std::uint32_t i = 0; i < 5; ++i) call(17 + i);
    settle();
    EXPECT_EQ(network->events(1).size(), 3u);
    EXPECT_EQ(network->events(0).size(), reject_overflow ? 2u : 0u);
    EXPECT_EQ(server().counters().overflowed, 2u);
    if (reject_overflow) {
      EXPECT_EQ(expect_event<Rejected>(0).second.reason, RejectReason::kNoResources);
    }
    // An answer frees a slot.
    ASSERT_TRUE(server().accept(network->now(), network->events(1).front().id, test_acceptance(33)).ok());
    call(30);
    settle();
    EXPECT_EQ(network->events(1).size(), 4u);
  }
}

TEST_F(Listen, HalfOpenConnectionsAreBoundedToo) {
  start({.half_open_max = 2});
  for (std::uint32_t i = 0; i < 2; ++i) {
    call(17 + i);
    settle();
    ASSERT_TRUE(server()
                    .accept(network->now(), expect_event<ConnectRequest>(1).first.id, test_acceptance(33 + i))
                    .ok());
  }
  call(19);
  settle();
  expect_event<ConnectReply>(0);
  const ConnectionId second = expect_event<ConnectReply>(0).first.id;
  EXPECT_EQ(expect_event<Rejected>(0).second.reason, RejectReason::kNoResources);
  ASSERT_TRUE(caller().send_rtu(second).ok());
  settle();
  call(20);
  settle();
  expect_event<Established>(1);
  expect_event<ConnectRequest>(1);
}

TEST_F(Listen, AFloodOfRequestsCostsNoMoreThanTheBacklog) {
  network->add_host();
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const wire::CmReq req{
        .local_comm_id = {i + 1},
        .service_id = kTestService,
        .local_qpn = wire::Qpn(i + 2),
        .path_mtu = 3,
        .max_cm_retries = 15,
        .primary = {.local_gid = test_gid(2), .remote_gid = test_gid(1), .local_ack_timeout = 31}};
    server().handle_mad(network->now(), {.local = test_gid(1), .remote = test_gid(2)},
                        wire::emit_cm_mad({.message = req}));
  }
  const Settings settings;
  EXPECT_EQ(server().connections(), settings.backlog_max);
  EXPECT_EQ(server().counters().overflowed, 100'000 - settings.backlog_max);
  std::size_t answers = 0;
  while (server().poll_mad().has_value()) ++answers;
  EXPECT_LE(answers, settings.outgoing_max);
  EXPECT_EQ(answers + server().counters().outgoing_lost, 100'000 - settings.backlog_max);
  // Another service on the same host is not disturbed.
  ASSERT_TRUE(server().listen({.service_id = kTestService + 1}).ok());
  ConnectParameters parameters = test_call(0, 1, 17);
  parameters.service_id = kTestService + 1;
  ASSERT_TRUE(caller().connect(network->now(), parameters).ok());
  network->run_for(milliseconds(1));
  bool reached = false;
  for (const Event& event : network->events(1)) {
    const auto* request = std::get_if<ConnectRequest>(&event.details);
    reached = reached || (request != nullptr && request->service_id == kTestService + 1);
  }
  EXPECT_TRUE(reached);
}

TEST_F(Listen, WhoStopsListeningKeepsWhatItKnowsAndTurnsAwayTheRest) {
  call(17);
  settle();
  const ConnectionId known = expect_event<ConnectRequest>(1).first.id;
  const auto req = caller().connect(network->now(), test_call(0, 1, 18));
  const auto mad = caller().poll_mad();
  server().handle_mad(network->now(), {.local = test_gid(1), .remote = test_gid(0)}, mad->octets);
  ASSERT_TRUE(server().stop_listening(network->now(), {1}).ok());
  EXPECT_EQ(server().stop_listening(network->now(), {1}).error(), Error::kUnknownListener);
  settle();
  EXPECT_TRUE(network->events(1).empty());
  EXPECT_EQ(expect_event<Rejected>(0).first.id, *req);
  ASSERT_TRUE(server().accept(network->now(), known, test_acceptance(33)).ok());
  settle();
  expect_event<ConnectReply>(0);
  EXPECT_EQ(server().listeners(), 0u);
}

TEST_F(Listen, TheKernelsOwnRequestIsUnderstood) {
  // REQ of rping on the kernel's rxe (see wire/cm_mad_test.cc), from 10.77.0.3 to 10.77.0.2.
  wire::CmReq req{.local_comm_id = {0xb00de82c},
                  .service_id = 0x0000000001061c06,
                  .local_ca_guid = 0x007700fffe000003,
                  .local_qpn = wire::Qpn(0x62),
                  .responder_resources = 1,
                  .initiator_depth = 1,
                  .remote_cm_response_timeout = 20,
                  .starting_psn = wire::Psn(0x8cd3bc),
                  .local_cm_response_timeout = 20,
                  .retry_count = 7,
                  .path_mtu = 5,
                  .rnr_retry_count = 7,
                  .max_cm_retries = 15,
                  .primary = {.local_lid = 0xffff,
                              .remote_lid = 0xffff,
                              .local_gid = wire::gid_of_ipv4({10, 77, 0, 3}),
                              .remote_gid = wire::gid_of_ipv4({10, 77, 0, 2}),
                              .flow_label = 0x6bc2e,
                              .hop_limit = 64,
                              .local_ack_timeout = 19}};
  wire::emit_ip_cm_header({.version = wire::IpVersion::kIpv4,
                           .source_port = 0xbad8,
                           .source = wire::gid_of_ipv4({10, 77, 0, 3}),
                           .destination = wire::gid_of_ipv4({10, 77, 0, 2})},
                          req.private_data);
  server().handle_mad({}, {.local = req.primary.remote_gid, .remote = req.primary.local_gid},
                      wire::emit_cm_mad({.transaction_id = 0x000000022ce80db0, .message = req}));
  const auto event = server().poll_event();
  ASSERT_TRUE(event.has_value());
  ASSERT_TRUE(server()
                  .accept({}, event->id,
                          {.qpn = wire::Qpn(0x60),
                           .starting_psn = wire::Psn(0x3d0027),
                           .responder_resources = 1,
                           .initiator_depth = 1})
                  .ok());
  EXPECT_EQ(server().qp_attributes(event->id, QpStep::kReadyToSend)->timeout, 19);
  const auto mad = wire::parse_cm_mad(server().poll_mad()->octets);
  EXPECT_EQ(mad->transaction_id, 0x000000022ce80db0u);
  // Identical to the kernel's reply in every field but its own IDs.
  auto rep = std::get<wire::CmRep>(mad->message);
  EXPECT_EQ(rep, (wire::CmRep{.local_comm_id = event->id,
                              .remote_comm_id = {0xb00de82c},
                              .local_qpn = wire::Qpn(0x60),
                              .starting_psn = wire::Psn(0x3d0027),
                              .responder_resources = 1,
                              .initiator_depth = 1,
                              .target_ack_delay = 15,
                              .rnr_retry_count = 7,
                              .local_ca_guid = 0x0200000000000001}));
}

TEST_F(Listen, MalformedMadsAreCountedAndNothingElse) {
  const std::vector<std::uint8_t> zeros(256);
  server().handle_mad({}, {}, zeros);
  server().handle_mad({}, {}, Octets(zeros).first(10));
  EXPECT_EQ(server().counters().malformed, 2u);
  EXPECT_FALSE(server().poll_mad().has_value());
}

// ---- lookups ----

TEST_F(Listen, ALookupIsAnswered) {
  const std::vector<std::uint8_t> question(180, 0x21);
  const auto id = caller().look_up(network->now(),
                                   {.owner = 3,
                                    .route = {.local = test_gid(0), .remote = test_gid(1)},
                                    .service_id = kTestService,
                                    .ip = wire::IpCmHeader{.source = test_gid(0), .destination = test_gid(1)},
                                    .private_data = question});
  ASSERT_TRUE(id.ok());
  settle();
  const auto [event, request] = expect_event<LookupRequest>(1);
  EXPECT_EQ(request.ip->destination, test_gid(1));
  EXPECT_EQ(event.private_data.length, 216);
  EXPECT_EQ(event.private_data.octets[36], 0x21);
  const std::vector<std::uint8_t> reply(136, 0x43);
  ASSERT_TRUE(server()
                  .reply_lookup(network->now(), event.id,
                                {.qpn = wire::Qpn(55), .qkey = {0x01234567}, .private_data = reply})
                  .ok());
  EXPECT_EQ(server().reply_lookup(network->now(), event.id, {}).error(), Error::kWrongState);
  settle();
  const auto [reply_event, answer] = expect_event<LookupReply>(0);
  EXPECT_EQ(reply_event.id, *id);
  EXPECT_EQ(answer.status, SidrStatus::kValid);
  EXPECT_EQ(answer.qpn, wire::Qpn(55));
  EXPECT_EQ(answer.qkey.value, 0x01234567u);
  EXPECT_EQ(reply_event.private_data.view().back(), 0x43);
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 SIDR_REQ", "1>0 SIDR_REP"}));
  caller().destroy(network->now(), *id);
  server().destroy(network->now(), event.id);
  network->run_to_silence();
  EXPECT_EQ(caller().connections() + server().connections(), 0u);
}

TEST_F(Listen, ALostLookupAnswerIsGivenAgainWithoutAskingTheOwner) {
  const LookupParameters parameters{.route = {.local = test_gid(0), .remote = test_gid(1)},
                                    .service_id = kTestService};
  ASSERT_TRUE(caller().look_up(network->now(), parameters).ok());
  settle();
  const ConnectionId asked = expect_event<LookupRequest>(1).first.id;
  drop_next(wire::CmAttribute::kSidrRep);
  ASSERT_TRUE(server().reply_lookup(network->now(), asked, {.qpn = wire::Qpn(55)}).ok());
  server().destroy(network->now(), asked);
  network->run_for(milliseconds(300));
  EXPECT_EQ(expect_event<LookupReply>(0).second.qpn, wire::Qpn(55));
  EXPECT_TRUE(network->events(1).empty());
}

TEST_F(Listen, LookupsAreRefusedRejectedAndGivenUp) {
  LookupParameters parameters{.route = {.local = test_gid(0), .remote = test_gid(1)},
                              .service_id = kTestService + 1};
  ASSERT_TRUE(caller().look_up(network->now(), parameters).ok());
  settle();
  EXPECT_EQ(expect_event<LookupReply>(0).second.status, SidrStatus::kServiceNotSupported);

  parameters.service_id = kTestService;
  ASSERT_TRUE(caller().look_up(network->now(), parameters).ok());
  settle();
  server().destroy(network->now(), expect_event<LookupRequest>(1).first.id);
  settle();
  EXPECT_EQ(expect_event<LookupReply>(0).second.status, SidrStatus::kRejected);

  drop_next(wire::CmAttribute::kSidrReq, 1000);
  parameters.max_cm_retries = 2;
  ASSERT_TRUE(caller().look_up(network->now(), parameters).ok());
  network->run_for(parameters.timeout * 3 - milliseconds(1));
  EXPECT_TRUE(network->events(0).empty());
  network->run_for(milliseconds(1));
  EXPECT_EQ(expect_event<Unreachable>(0).second.unanswered, wire::CmAttribute::kSidrReq);

  const std::vector<std::uint8_t> too_long(217);
  parameters.private_data = too_long;
  EXPECT_EQ(caller().look_up(network->now(), parameters).error(), Error::kPrivateDataTooLong);
}

TEST_F(Listen, LookupsCountAgainstTheBacklog) {
  ASSERT_TRUE(server().stop_listening(network->now(), {1}).ok());
  ASSERT_TRUE(server().listen({.service_id = kTestService, .backlog = 1}).ok());
  const LookupParameters parameters{.route = {.local = test_gid(0), .remote = test_gid(1)},
                                    .service_id = kTestService};
  const auto first = caller().look_up(network->now(), parameters);
  ASSERT_TRUE(caller().look_up(network->now(), parameters).ok());
  settle();
  EXPECT_EQ(expect_event<LookupReply>(0).second.status, SidrStatus::kNoQp);
  EXPECT_EQ(server().counters().overflowed, 1u);
  caller().destroy(network->now(), *first);
  EXPECT_EQ(caller().state_of(*first), std::nullopt);
}

TEST_F(Listen, TombstonesMakeRoomForTheLiving) {
  start({.tombstones_max = 10});
  for (std::uint32_t i = 0; i < 50; ++i) {
    call(17 + i);
    settle();
    server().destroy(network->now(), expect_event<ConnectRequest>(1).first.id);
    settle();
  }
  EXPECT_EQ(server().tombstones(), 10u);
  EXPECT_EQ(server().connections(), 10u);
  EXPECT_EQ(server().counters().tombstones_evicted, 40u);

  start({.connections_max = 10});
  for (std::uint32_t i = 0; i < 30; ++i) {
    const ConnectionId id = call(17 + i);
    settle();
    server().destroy(network->now(), expect_event<ConnectRequest>(1).first.id);
    settle();
    expect_event<Rejected>(0);
    caller().destroy(network->now(), id);
  }
  EXPECT_EQ(server().connections(), 10u);
}

// The daemon gives the MADs of others to the kernel's connection manager.
TEST_F(Listen, AnEndpointKnowsWhichMadsAreForIt) {
  const auto [caller_id, server_id] = connected();
  const MadAddresses from_caller{.local = test_gid(1), .remote = test_gid(0)};
  const auto is_for_server = [&](const MadAddresses& addresses, const wire::CmMessage& message) {
    return server().is_recipient(addresses, {.message = message});
  };
  EXPECT_TRUE(is_for_server(from_caller, wire::CmReq{.service_id = kTestService}));
  EXPECT_FALSE(is_for_server(from_caller, wire::CmReq{.service_id = kTestService + 1}));
  EXPECT_TRUE(is_for_server(from_caller, wire::CmSidrReq{.service_id = kTestService}));
  EXPECT_FALSE(is_for_server(from_caller, wire::CmSidrReq{.service_id = kTestService + 1}));

  const wire::CommId known{server_id.value}, unknown{server_id.value + 1};
  EXPECT_TRUE(is_for_server(from_caller, wire::CmDreq{.remote_comm_id = known}));
  EXPECT_FALSE(is_for_server(from_caller, wire::CmDreq{.remote_comm_id = unknown}));
  EXPECT_TRUE(is_for_server(from_caller, wire::CmRtu{.remote_comm_id = known}));
  EXPECT_TRUE(is_for_server(from_caller, wire::CmSidrRep{.request_id = known}));
  EXPECT_FALSE(is_for_server(from_caller, wire::CmSidrRep{.request_id = unknown}));
  // The kernel numbers its connections itself: the same number between other addresses is not ours.
  for (const MadAddresses& other : {MadAddresses{.local = test_gid(1), .remote = test_gid(2)},
                                    MadAddresses{.local = test_gid(2), .remote = test_gid(0)}}) {
    EXPECT_FALSE(is_for_server(other, wire::CmDreq{.remote_comm_id = known}));
  }
  EXPECT_TRUE(caller().is_recipient({.local = test_gid(0), .remote = test_gid(1)},
                                    {.message = wire::CmDreq{.remote_comm_id = {caller_id.value}}}));
}

}  // namespace rrdma::cm::listen_test
