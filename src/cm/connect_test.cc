// Establishing connections: REQ, REP, RTU and MRA, their losses and duplicates. Traces read "from>to
// message".
#include <gtest/gtest.h>

#include <set>

#include "cm/test_pair.h"

namespace rrdma::cm::connect_test {

using Connect = TestPair;

TEST_F(Connect, ThreeMessagesMakeAConnection) {
  ConnectParameters parameters = test_call(0, 1, 17);
  const std::vector<std::uint8_t> greeting(wire::kReqPrivateOctets - wire::kIpCmHeaderOctets, 0xa5);
  parameters.private_data = greeting;
  parameters.flow_control = true;
  parameters.ece = {.vendor_id = 0x123456, .options = 0x789};
  parameters.route.traffic_class = 0x20;
  const ConnectionId id = *caller().connect(network->now(), parameters);
  settle();

  const auto [event, request] = expect_event<ConnectRequest>(1);
  EXPECT_EQ(event.owner, 99u);
  EXPECT_EQ(request.listener_owner, 99u);
  EXPECT_EQ(request.route.remote, test_gid(0));
  EXPECT_EQ(request.route.local, test_gid(1));
  EXPECT_EQ(request.route.traffic_class, 0x20);
  EXPECT_EQ(request.service_id, kTestService);
  ASSERT_TRUE(request.ip.has_value());
  EXPECT_EQ(request.ip->source_port, 40'000);
  EXPECT_EQ(request.remote_qpn, wire::Qpn(17));
  EXPECT_EQ(request.remote_psn, wire::Psn(1017));
  EXPECT_EQ(request.path_mtu, 3);
  // From the server's view: it may request what the caller serves.
  EXPECT_EQ(request.responder_resources, 2);
  EXPECT_EQ(request.initiator_depth, 4);
  EXPECT_TRUE(request.flow_control);
  EXPECT_EQ(request.ece, (Ece{.vendor_id = 0x123456, .options = 0x789}));
  EXPECT_EQ(event.private_data.length, wire::kReqPrivateOctets);
  EXPECT_TRUE(std::equal(greeting.begin(), greeting.end(), event.private_data.octets.begin() + 36));

  AcceptParameters acceptance = test_acceptance(33);
  const std::vector<std::uint8_t> welcome(wire::kRepPrivateOctets, 0x5a);
  acceptance.private_data = welcome;
  acceptance.srq = true;
  acceptance.ece = {.vendor_id = 0xfedcba, .options = 0x321};
  ASSERT_TRUE(server().accept(network->now(), event.id, acceptance).ok());
  settle();

  const auto [reply_event, reply] = expect_event<ConnectReply>(0);
  EXPECT_EQ(reply_event.id, id);
  EXPECT_EQ(reply_event.owner, 17u);
  EXPECT_EQ(reply.remote_qpn, wire::Qpn(33));
  EXPECT_EQ(reply.remote_psn, wire::Psn(2033));
  EXPECT_EQ(reply.responder_resources, 3);
  EXPECT_EQ(reply.initiator_depth, 2);
  EXPECT_EQ(reply.rnr_retry_count, 6);
  EXPECT_EQ(reply.target_ack_delay, 15);
  EXPECT_TRUE(reply.srq);
  EXPECT_EQ(reply.remote_ca_guid, 0x0200000000000001u);
  EXPECT_EQ(reply.ece, (Ece{.vendor_id = 0xfedcba, .options = 0x321}));
  EXPECT_EQ(reply_event.private_data.view().front(), 0x5a);

  const std::vector<std::uint8_t> ready(wire::kRtuPrivateOctets, 0x77);
  ASSERT_TRUE(caller().send_rtu(id, ready).ok());
  settle();
  const auto established = expect_event<Established>(1).first;
  EXPECT_EQ(established.private_data.view().back(), 0x77);
  EXPECT_EQ(caller().state_of(id), State::kEstablished);
  EXPECT_EQ(server().state_of(event.id), State::kEstablished);
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 REQ", "1>0 REP", "0>1 RTU"}));
  EXPECT_EQ(caller().next_deadline(), kNever);
  EXPECT_EQ(server().next_deadline(), kNever);
}

TEST_F(Connect, QueuePairsAreToldWhatWasAgreed) {
  const ConnectionId id = call();
  EXPECT_FALSE(caller().qp_attributes(id, QpStep::kReadyToReceive).ok());
  ASSERT_TRUE(caller().qp_attributes(id, QpStep::kInit).ok());
  EXPECT_TRUE(caller().qp_attributes(id, QpStep::kInit)->remote_read_and_atomic);
  settle();
  const ConnectionId server_id = network->events(1).front().id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();

  const auto active = *caller().qp_attributes(id, QpStep::kReadyToSend);
  EXPECT_EQ(active.destination_qpn, wire::Qpn(33));
  EXPECT_EQ(active.receive_psn, wire::Psn(1017));
  EXPECT_EQ(active.send_psn, wire::Psn(2033));
  EXPECT_EQ(active.path_mtu, 3);
  EXPECT_EQ(active.max_destination_reads, 3);
  EXPECT_EQ(active.max_reads, 2);
  EXPECT_EQ(active.retry_count, 7);
  EXPECT_EQ(active.rnr_retry_count, 6);
  EXPECT_EQ(active.timeout, 17);  // lifetime 16 doubled; an ack delay of 15 is too small to count

  const auto passive = *server().qp_attributes(server_id, QpStep::kReadyToSend);
  EXPECT_EQ(passive.destination_qpn, wire::Qpn(17));
  EXPECT_EQ(passive.receive_psn, wire::Psn(2033));
  EXPECT_EQ(passive.send_psn, wire::Psn(1017));
  EXPECT_EQ(passive.path_mtu, 3);
  EXPECT_EQ(passive.max_destination_reads, 2);
  EXPECT_EQ(passive.max_reads, 3);
  EXPECT_EQ(passive.retry_count, 7);
  EXPECT_EQ(passive.rnr_retry_count, 7);
  EXPECT_EQ(passive.timeout, 17);
  EXPECT_EQ(passive.route.remote, test_gid(0));
}

TEST(AckTimeout, IsComputedAsTheKernelDoes) {
  EXPECT_EQ(ack_timeout_code(15, 16), 17);
  EXPECT_EQ(ack_timeout_code(15, 18), 19);  // the code that kernel 6.1 puts into its REQ
  EXPECT_EQ(ack_timeout_code(16, 16), 18);
  EXPECT_EQ(ack_timeout_code(17, 16), 18);
  EXPECT_EQ(ack_timeout_code(18, 16), 19);
  EXPECT_EQ(ack_timeout_code(20, 16), 20);
  EXPECT_EQ(ack_timeout_code(31, 31), 31);
}

TEST_F(Connect, WithoutEarlyRetriesTheReqIsRepeatedAsOftenAsAgreed) {
  start({.first_retry = {}});
  drop_next(wire::CmAttribute::kReq, 1000);
  ConnectParameters parameters = test_call(0, 1, 17);
  parameters.max_cm_retries = 3;
  const ConnectionId id = *caller().connect(network->now(), parameters);
  const Duration nominal = time_of_code(16) * 2 + time_of_code(20);
  network->run_until(Instant{} + nominal * 4 - nanoseconds(1));
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 REQ", "0>1 REQ", "0>1 REQ", "0>1 REQ"}));
  EXPECT_TRUE(network->events(0).empty());
  network->run_for(nanoseconds(1));
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 REJ"}));
  EXPECT_EQ(expect_event<Unreachable>(0).second.unanswered, wire::CmAttribute::kReq);
  EXPECT_EQ(caller().state_of(id), State::kIdle);
  EXPECT_EQ(caller().counters().retries[index_of(wire::CmAttribute::kReq)], 3u);
  caller().destroy(network->now(), id);
  EXPECT_EQ(caller().connections(), 0u);
}

TEST_F(Connect, ALostReqIsRepeatedEarlyAndADeadPeerStillGetsAllItsTime) {
  drop_next(wire::CmAttribute::kReq);
  const ConnectionId id = call();
  network->run_for(milliseconds(201));
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 REQ", "0>1 REQ"}));
  expect_event<ConnectRequest>(1);
  EXPECT_EQ(caller().state_of(id), State::kReqSent);

  start({});
  drop_next(wire::CmAttribute::kReq, 1'000'000);
  call();
  const Duration patience = (time_of_code(16) * 2 + time_of_code(20)) * 16;
  network->run_until(Instant{} + patience - nanoseconds(1));
  EXPECT_TRUE(network->events(0).empty());
  const auto sends = network->take_trace().size();
  EXPECT_GT(sends, 16u);
  EXPECT_LT(sends, 16u + 8u);
  network->run_for(nanoseconds(1));
  expect_event<Unreachable>(0);
}

TEST_F(Connect, ALostRepIsRepeatedAndItsDoubleGetsTheSameRtu) {
  call();
  settle();
  const ConnectionId server_id = network->events(1).front().id;
  drop_next(wire::CmAttribute::kRep);
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  network->run_for(milliseconds(250));
  const auto reply = expect_event<ConnectReply>(0).first;
  network->take_trace();
  drop_next(wire::CmAttribute::kRtu);
  ASSERT_TRUE(caller().send_rtu(reply.id).ok());
  network->run_for(seconds(2));
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 RTU", "1>0 REP", "0>1 RTU"}));
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
  EXPECT_EQ(caller().counters().duplicates[index_of(wire::CmAttribute::kRep)], 1u);
}

// The source of a REQ may be forged: the real host at that address must not receive ten REPs.
TEST_F(Connect, ACallerThatWasNeverHeardOfGetsFewRepsUnasked) {
  unsigned reqs = 0, reps = 0;
  network->filter = [&](unsigned from, const wire::CmMad& mad) {
    if (from == 0) return ++reqs == 1;
    if (std::holds_alternative<wire::CmRep>(mad.message)) ++reps;
    return false;
  };
  call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  network->run_for(seconds(600));
  EXPECT_EQ(reps, 3u);
  expect_event<Unreachable>(1);
}

TEST_F(Connect, ADoubleReqGetsAnMraWhileTheOwnerThinksAndThenTheRep) {
  const ConnectionId id = call();
  network->run_for(milliseconds(300));
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 REQ", "0>1 REQ", "1>0 MRA"}));
  EXPECT_EQ(caller().state_of(id), State::kMraReqReceived);
  EXPECT_EQ(network->events(1).size(), 1u);
  const ConnectionId server_id = network->events(1).front().id;
  EXPECT_EQ(server().state_of(server_id), State::kMraReqSent);
  // After the MRA the caller waits longer: it retries after 1, 3, 7, 15 and 23 seconds.
  network->run_for(seconds(30));
  EXPECT_EQ(network->take_trace().size(), 10u);
  drop_next(wire::CmAttribute::kRep);
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  network->run_for(milliseconds(300));
  expect_event<ConnectReply>(0);
}

TEST_F(Connect, TheDoubleOfAReqThatWasAcceptedGetsTheRepAgain) {
  std::optional<wire::CmMad> req;
  network->filter = [&](unsigned from, const wire::CmMad& mad) {
    if (from == 0 && !req.has_value()) req = mad;
    return true;
  };
  call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  network->take_trace();
  network->inject(0, 1, *req);
  EXPECT_EQ(network->take_trace(), (Trace{"1>0 REP"}));
  EXPECT_EQ(server().counters().duplicates[index_of(wire::CmAttribute::kReq)], 1u);
  EXPECT_TRUE(network->events(1).empty());
}

TEST_F(Connect, AnMraOnDemandIsHonoured) {
  start({.first_retry = {}, .retry_interval_max = seconds(1000)});
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = network->events(1).front().id;
  ASSERT_TRUE(server().send_mra(server_id, 23).ok());
  EXPECT_EQ(server().send_mra(server_id, 23).error(), Error::kWrongState);
  settle();
  EXPECT_EQ(caller().state_of(id), State::kMraReqReceived);
  network->take_trace();
  // 2^23 * 4.096 us are 34.4 s; no REQ before that.
  network->run_for(seconds(34));
  EXPECT_EQ(network->take_trace(), Trace{});
  network->run_for(seconds(1));
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 REQ", "1>0 MRA"}));

  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  ASSERT_TRUE(caller().send_mra(id, 20).ok());
  settle();
  EXPECT_EQ(server().state_of(server_id), State::kMraRepReceived);
  ASSERT_TRUE(caller().send_rtu(id).ok());
  settle();
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
}

TEST_F(Connect, APacketOnTheQueuePairStandsForALostRtu) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  EXPECT_EQ(server().notify_established(server_id).error(), Error::kWrongState);
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  drop_next(wire::CmAttribute::kRtu);
  ASSERT_TRUE(caller().send_rtu(id).ok());
  ASSERT_TRUE(server().notify_established(server_id).ok());
  EXPECT_EQ(server().notify_established(server_id).error(), Error::kAlreadyEstablished);
  settle();
  expect_event<Established>(1);
  EXPECT_EQ(server().next_deadline(), kNever);
}

TEST_F(Connect, ARepThatNobodyAnswersMakesTheServerGiveUpAndSaySo) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  expect_event<ConnectReply>(0);
  network->filter = [](unsigned from, const wire::CmMad&) { return from == 1; };
  ASSERT_TRUE(caller().send_rtu(id).ok());
  network->run_for(time_of_code(20) * 16 + seconds(1));
  EXPECT_EQ(expect_event<Unreachable>(1).second.unanswered, wire::CmAttribute::kRep);
  // The caller considered the connection established until the REJ arrived.
  const auto [event, rejected] = expect_event<Rejected>(0);
  EXPECT_EQ(rejected.reason, wire::RejectReason::kTimeout);
  EXPECT_TRUE(rejected.was_established);
  expect_event<TimeWaitExit>(0);
}

// The host at the forged source address did not ask for any of the answers.
TEST_F(Connect, AForgedRequestDrawsFewAnswers) {
  call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  unsigned reps = 0, others = 0;
  network->filter = [&](unsigned from, const wire::CmMad& mad) {
    if (from == 1) ++(wire::attribute_of(mad.message) == wire::CmAttribute::kRep ? reps : others);
    return false;
  };
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  // The caller in this test repeats its REQ, but the filter drops it: the server receives nothing.
  network->run_for(time_of_code(20) * 16 + seconds(60));
  EXPECT_EQ(expect_event<Unreachable>(1).second.unanswered, wire::CmAttribute::kRep);
  EXPECT_EQ(reps, 1u + Settings{}.repeats_to_strangers);
  EXPECT_EQ(others, 1u) << "the REJ that takes it back";
}

TEST_F(Connect, ALateRepForACallThatWasGivenUpIsRefused) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  drop_next(wire::CmAttribute::kRej);
  caller().destroy(network->now(), id);
  EXPECT_EQ(caller().connections(), 0u);
  settle();
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  EXPECT_EQ(expect_event<Rejected>(1).second.reason, wire::RejectReason::kInvalidCommId);
}

TEST_F(Connect, AHostMayCallItself) {
  ASSERT_TRUE(caller().listen({.owner = 5, .service_id = kTestService}).ok());
  const ConnectionId id = *caller().connect(network->now(), test_call(0, 0, 17));
  settle();
  const ConnectionId other = expect_event<ConnectRequest>(0).first.id;
  ASSERT_TRUE(caller().accept(network->now(), other, test_acceptance(18)).ok());
  settle();
  expect_event<ConnectReply>(0);
  ASSERT_TRUE(caller().send_rtu(id).ok());
  settle();
  expect_event<Established>(0);
  ASSERT_TRUE(caller().disconnect(network->now(), other).ok());
  settle();
  EXPECT_EQ(expect_event<Disconnected>(0).first.id, id);
}

TEST_F(Connect, XrcTargetsAnswerWithTheirNumberInThePlaceOfTheEec) {
  ConnectParameters parameters = test_call(0, 1, 17);
  parameters.qp_type = QpType::kXrcTarget;
  EXPECT_EQ(caller().connect(network->now(), parameters).error(), Error::kInvalidQpType);
  parameters.qp_type = QpType::kXrcInitiator;
  const ConnectionId id = *caller().connect(network->now(), parameters);
  settle();
  const auto [event, request] = expect_event<ConnectRequest>(1);
  EXPECT_EQ(request.qp_type, QpType::kXrcTarget);
  ASSERT_TRUE(server().accept(network->now(), event.id, test_acceptance(33)).ok());
  settle();
  const auto reply = expect_event<ConnectReply>(0).second;
  EXPECT_EQ(reply.remote_qpn, wire::Qpn(33));
  EXPECT_TRUE(reply.srq);
  ASSERT_TRUE(caller().send_rtu(id).ok());
  settle();
  expect_event<Established>(1);
  // Destroying a target does not disconnect the initiator.
  network->take_trace();
  server().destroy(network->now(), event.id);
  settle();
  EXPECT_EQ(network->take_trace(), Trace{});
  network->run_to_silence();
  EXPECT_EQ(server().connections(), 0u);
}

TEST_F(Connect, UnreliableConnectionsComeAboutLikeReliableOnes) {
  ConnectParameters parameters = test_call(0, 1, 17);
  parameters.qp_type = QpType::kUnreliable;
  const ConnectionId id = *caller().connect(network->now(), parameters);
  settle();
  const auto [event, request] = expect_event<ConnectRequest>(1);
  EXPECT_EQ(request.qp_type, QpType::kUnreliable);
  ASSERT_TRUE(server().accept(network->now(), event.id, test_acceptance(33)).ok());
  settle();
  EXPECT_EQ(caller().qp_attributes(id, QpStep::kReadyToSend)->qp_type, QpType::kUnreliable);
}

TEST_F(Connect, ASecondRepUnderAnotherNameIsDropped) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  network->inject(
      1, 0,
      {.message = wire::CmRep{
           .local_comm_id = {server_id.value + 1}, .remote_comm_id = id, .local_qpn = wire::Qpn(34)}});
  EXPECT_EQ(caller().counters().unmatched, 1u);
  EXPECT_EQ(caller().qp_attributes(id, QpStep::kReadyToSend)->destination_qpn, wire::Qpn(33));
  // And a REP that carries the ID of another connection's remote half.
  const ConnectionId second = call(18);
  settle();
  network->inject(1, 0,
                  {.message = wire::CmRep{
                       .local_comm_id = server_id, .remote_comm_id = second, .local_qpn = wire::Qpn(34)}});
  EXPECT_EQ(caller().state_of(second), State::kReqSent);
}

TEST_F(Connect, WhatDoesNotFitIsRefusedBeforeAnythingIsSent) {
  const std::vector<std::uint8_t> octets(wire::kPrivateOctetsMax + 1);
  ConnectParameters parameters = test_call(0, 1, 17);
  parameters.private_data = Octets(octets).first(57);
  EXPECT_EQ(caller().connect(network->now(), parameters).error(), Error::kPrivateDataTooLong);
  parameters.ip.reset();
  parameters.private_data = Octets(octets).first(93);
  EXPECT_EQ(caller().connect(network->now(), parameters).error(), Error::kPrivateDataTooLong);
  parameters.private_data = {};
  for (const int mtu : {0, 6, 255}) {
    parameters.path_mtu = static_cast<std::uint8_t>(mtu);
    EXPECT_EQ(caller().connect(network->now(), parameters).error(), Error::kInvalidPathMtu);
  }
  EXPECT_EQ(caller().connections(), 0u);

  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = network->events(1).front().id;
  AcceptParameters acceptance = test_acceptance(33);
  acceptance.private_data = Octets(octets).first(197);
  EXPECT_EQ(server().accept(network->now(), server_id, acceptance).error(), Error::kPrivateDataTooLong);
  EXPECT_EQ(server().reject(network->now(), server_id, {.info = Octets(octets).first(73)}).error(),
            Error::kInfoTooLong);
  EXPECT_EQ(server().reject(network->now(), server_id, {.private_data = Octets(octets).first(149)}).error(),
            Error::kPrivateDataTooLong);
  EXPECT_EQ(server().send_mra(server_id, 20, Octets(octets).first(223)).error(), Error::kPrivateDataTooLong);
  EXPECT_EQ(caller().send_rtu(id).error(), Error::kWrongState);
  EXPECT_EQ(caller().send_rtu({12345}).error(), Error::kUnknownConnection);
  acceptance.private_data = {};
  ASSERT_TRUE(server().accept(network->now(), server_id, acceptance).ok());
  EXPECT_EQ(server().accept(network->now(), server_id, acceptance).error(), Error::kWrongState);
  settle();
  EXPECT_EQ(caller().send_rtu(id, octets).error(), Error::kPrivateDataTooLong);
}

TEST_F(Connect, AFullTableRefuses) {
  start({.connections_max = 100});
  for (std::uint32_t i = 0; i < 100; ++i) call(i + 1);
  EXPECT_EQ(caller().connect(network->now(), test_call(0, 1, 500)).error(), Error::kTooManyConnections);
}

TEST(ConnectionTable, IdsDoNotComeBackSoonAndShowNoOrder) {
  KeySource keys(1);
  ConnectionTable table(keys);
  std::set<std::uint32_t> ids;
  std::array<int, 32> ones{};
  int neighbours = 0;
  std::uint32_t previous = 0;
  constexpr int kRounds = 100'000;
  for (int round = 0; round < kRounds; ++round) {
    Connection& connection = table.create();
    const std::uint32_t id = connection.id.value;
    EXPECT_NE(id, 0u);
    EXPECT_TRUE(ids.insert(id).second);
    neighbours += id - previous == 1 || previous - id == 1 ? 1 : 0;
    for (unsigned bit = 0; bit < 32; ++bit) ones[bit] += static_cast<int>((id ^ previous) >> bit & 1);
    previous = id;
    table.destroy(connection);
  }
  EXPECT_LE(neighbours, 2);
  // Between consecutive IDs, every bit flips about half the time.
  for (const int count : ones) EXPECT_NEAR(count, kRounds / 2, kRounds / 50);
}

TEST_F(Connect, TheOwnerOfAConnectionMayChange) {
  call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().set_owner(server_id, 4711).ok());
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  ASSERT_TRUE(caller().send_rtu(expect_event<ConnectReply>(0).first.id).ok());
  settle();
  EXPECT_EQ(expect_event<Established>(1).first.owner, 4711u);
  EXPECT_EQ(server().set_owner({1}, 2).error(), Error::kUnknownConnection);
}

}  // namespace rrdma::cm::connect_test
