// The end of connections: by REJ, by DREQ and DREP, by destroy(), and by silent peers.
#include <gtest/gtest.h>

#include "cm/test_pair.h"

namespace rrdma::cm::close_test {

using Close = TestPair;
using wire::CmAttribute;
using wire::RejectReason;

TEST_F(Close, ARejectionCarriesReasonInformationAndPrivateData) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  const std::vector<std::uint8_t> info{1, 2, 3};
  const std::vector<std::uint8_t> why(wire::kRejPrivateOctets, 0x11);
  ASSERT_TRUE(server()
                  .reject(network->now(), server_id,
                          {.reason = RejectReason::kInvalidPathMtu, .info = info, .private_data = why})
                  .ok());
  settle();
  const auto [event, rejected] = expect_event<Rejected>(0);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(rejected.reason, RejectReason::kInvalidPathMtu);
  EXPECT_FALSE(rejected.was_established);
  EXPECT_EQ(rejected.info_length, 3);
  EXPECT_EQ(rejected.info[2], 3);
  EXPECT_EQ(event.private_data.view().back(), 0x11);
  EXPECT_EQ(caller().state_of(id), State::kIdle);
  EXPECT_EQ(server().accept(network->now(), server_id, test_acceptance(33)).error(), Error::kWrongState);
  // The same queue pair may retry at once.
  const ConnectionId again = call();
  settle();
  expect_event<ConnectRequest>(1);
  for (const auto each : {id, again}) caller().destroy(network->now(), each);
  server().destroy(network->now(), server_id);
  network->run_to_silence();
  EXPECT_EQ(caller().connections(), 0u);
}

TEST_F(Close, ALostRejectionIsSaidAgainToTheDoubleOfTheReq) {
  call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  drop_next(CmAttribute::kRej);
  ASSERT_TRUE(server().reject(network->now(), server_id, {}).ok());
  server().destroy(network->now(), server_id);
  EXPECT_EQ(server().tombstones(), 1u);
  network->run_for(milliseconds(300));
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 REQ", "1>0 REJ", "0>1 REQ", "1>0 REJ"}));
  EXPECT_EQ(expect_event<Rejected>(0).second.reason, RejectReason::kConsumerDefined);
  EXPECT_TRUE(network->events(1).empty());
  network->run_to_silence();
  EXPECT_EQ(server().connections(), 0u);
  EXPECT_EQ(server().tombstones(), 0u);
}

TEST_F(Close, TheCallerMayTakeItsCallBack) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  // A REJ by the caller for its own REQ carries no ID of the server; the server finds it by the caller's ID.
  ASSERT_TRUE(caller().reject(network->now(), id, {.reason = RejectReason::kTimeout}).ok());
  EXPECT_EQ(caller().reject(network->now(), id, {}).error(), Error::kWrongState);
  settle();
  EXPECT_EQ(expect_event<Rejected>(1).second.reason, RejectReason::kTimeout);
  EXPECT_EQ(server().accept(network->now(), server_id, test_acceptance(33)).error(), Error::kWrongState);
  // A late REQ is not taken for a new one.
  network->inject(0, 1,
                  {.message = wire::CmReq{.local_comm_id = id,
                                          .service_id = kTestService,
                                          .local_qpn = wire::Qpn(17),
                                          .starting_psn = wire::Psn(17 + 1000),
                                          .path_mtu = 3,
                                          .primary = {.local_gid = test_gid(0), .remote_gid = test_gid(1)}}});
  EXPECT_TRUE(network->events(1).empty());
}

TEST_F(Close, TheCallerMayRefuseTheRep) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  expect_event<ConnectReply>(0);
  drop_next(CmAttribute::kRej);
  ASSERT_TRUE(caller().reject(network->now(), id, {.reason = RejectReason::kInvalidRnrRetry}).ok());
  network->run_for(milliseconds(300));
  // The REJ was lost; the REP was repeated and answered by the REJ. No further messages follow.
  EXPECT_EQ(expect_event<Rejected>(1).second.reason, RejectReason::kInvalidRnrRetry);
  network->take_trace();
  network->run_for(seconds(20));
  EXPECT_EQ(network->take_trace(), Trace{});
}

TEST_F(Close, DisconnectIsAnsweredAndBothLeaveTimewait) {
  const auto [id, server_id] = connected();
  const Instant start = network->now();
  const std::vector<std::uint8_t> bye(wire::kDreqPrivateOctets, 0x42);
  ASSERT_TRUE(caller().disconnect(network->now(), id, bye).ok());
  EXPECT_EQ(caller().disconnect(network->now(), id).error(), Error::kWrongState);
  settle();
  const auto [event, disconnected] = expect_event<Disconnected>(1);
  EXPECT_EQ(disconnected.cause, DisconnectCause::kPeerAsked);
  EXPECT_EQ(event.private_data.view().back(), 0x42);
  EXPECT_EQ(server().state_of(server_id), State::kDreqReceived);
  ASSERT_TRUE(server().disconnect(network->now(), server_id).ok());
  settle();
  EXPECT_EQ(expect_event<Disconnected>(0).second.cause, DisconnectCause::kPeerAnswered);
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 DREQ", "1>0 DREP"}));
  EXPECT_EQ(caller().state_of(id), State::kTimeWait);
  EXPECT_EQ(server().state_of(server_id), State::kTimeWait);
  network->run_until(start + time_of_code(17) - milliseconds(1));
  EXPECT_TRUE(network->events(0).empty());
  network->run_to_silence();
  expect_event<TimeWaitExit>(0);
  expect_event<TimeWaitExit>(1);
  EXPECT_EQ(caller().state_of(id), State::kIdle);
  caller().destroy(network->now(), id);
  server().destroy(network->now(), server_id);
  EXPECT_EQ(caller().connections() + server().connections(), 0u);
  EXPECT_EQ(caller().state_of(id), std::nullopt);
}

TEST_F(Close, TwoDreqsThatCrossAreBothContent) {
  const auto [id, server_id] = connected();
  ASSERT_TRUE(caller().disconnect(network->now(), id).ok());
  ASSERT_TRUE(server().disconnect(network->now(), server_id).ok());
  settle();
  EXPECT_EQ(expect_event<Disconnected>(0).second.cause, DisconnectCause::kPeerAnswered);
  EXPECT_EQ(expect_event<Disconnected>(1).second.cause, DisconnectCause::kPeerAnswered);
  EXPECT_EQ(caller().state_of(id), State::kTimeWait);
  EXPECT_EQ(server().state_of(server_id), State::kTimeWait);
  EXPECT_TRUE(network->events(0).empty());
}

TEST_F(Close, ALostDrepIsRepeatedFromTimewaitAndAfterIt) {
  for (const bool forgotten : {false, true}) {
    start({});
    const auto [id, server_id] = connected();
    drop_next(CmAttribute::kDrep);
    ASSERT_TRUE(caller().disconnect(network->now(), id).ok());
    settle();
    expect_event<Disconnected>(1);
    ASSERT_TRUE(server().disconnect(network->now(), server_id).ok());
    if (forgotten) {
      network->run_for(time_of_code(16));  // TIMEWAIT has not ended yet
      server().destroy(network->now(), server_id);
    }
    network->run_for(seconds(2));
    EXPECT_EQ(expect_event<Disconnected>(0).second.cause, DisconnectCause::kPeerAnswered);
  }
}

TEST_F(Close, ADreqToAPeerThatIsGoneIsGivenUp) {
  const auto [id, server_id] = connected();
  drop_next(CmAttribute::kDreq, 1000);
  ASSERT_TRUE(caller().disconnect(network->now(), id).ok());
  network->run_for(seconds(100));
  EXPECT_EQ(expect_event<Disconnected>(0).second.cause, DisconnectCause::kNoAnswer);
  expect_event<TimeWaitExit>(0);
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
}

TEST_F(Close, AnUnknownDreqIsAnswered) {
  network->inject(
      0, 1, {.transaction_id = 5, .message = wire::CmDreq{.local_comm_id = {1}, .remote_comm_id = {2}}});
  settle();
  EXPECT_EQ(network->take_trace(), (Trace{"1>0 DREP"}));
}

TEST_F(Close, ADreqForAnotherQueuePairDoesNothing) {
  const auto [id, server_id] = connected();
  network->inject(0, 1,
                  {.message = wire::CmDreq{
                       .local_comm_id = id, .remote_comm_id = server_id, .remote_qpn = wire::Qpn(34)}});
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
  EXPECT_EQ(server().counters().unmatched, 1u);
}

TEST_F(Close, ADreqMayOvertakeTheRtu) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  drop_next(CmAttribute::kRtu);
  ASSERT_TRUE(caller().send_rtu(id).ok());
  ASSERT_TRUE(caller().disconnect(network->now(), id).ok());
  settle();
  EXPECT_EQ(expect_event<Disconnected>(1).second.cause, DisconnectCause::kPeerAsked);
  ASSERT_TRUE(server().disconnect(network->now(), server_id).ok());
}

TEST_F(Close, AnOwnerThatLetsGoDisconnectsItsPeerEvenIfTheDreqIsLost) {
  const auto [id, server_id] = connected();
  drop_next(CmAttribute::kDreq, 2);
  caller().destroy(network->now(), id);
  EXPECT_EQ(caller().state_of(id), std::nullopt);
  EXPECT_EQ(caller().disconnect(network->now(), id).error(), Error::kUnknownConnection);
  network->run_for(seconds(1));
  expect_event<Disconnected>(1);
  server().destroy(network->now(), server_id);
  network->run_to_silence();
  EXPECT_TRUE(network->events(0).empty());
  EXPECT_EQ(caller().connections() + server().connections(), 0u);
}

// In every state, destroy() notifies the peer and leaves nothing behind once the timers have expired.
TEST_F(Close, DestroyInEveryState) {
  enum class When {
    kReqSent,
    kReqReceived,
    kMraReqSent,
    kRepSent,
    kRepReceived,
    kEstablished,
    kDreqReceived
  };
  const std::vector<std::pair<When, std::string>> cases = {
      {When::kReqSent, "0>1 REJ"},       {When::kReqReceived, "1>0 REJ"}, {When::kMraReqSent, "1>0 REJ"},
      {When::kRepSent, "1>0 REJ"},       {When::kRepReceived, "0>1 REJ"}, {When::kEstablished, "1>0 DREQ"},
      {When::kDreqReceived, "1>0 DREP"},
  };
  for (const auto& [when, farewell] : cases) {
    start({});
    const ConnectionId id = call();
    settle();
    const ConnectionId server_id = network->events(1).front().id;
    if (when == When::kMraReqSent) {
      ASSERT_TRUE(server().send_mra(server_id, 20).ok());
      settle();
    }
    if (when >= When::kRepSent) {
      ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
      settle();
    }
    if (when >= When::kEstablished) {
      ASSERT_TRUE(caller().send_rtu(id).ok());
      settle();
    }
    if (when == When::kDreqReceived) {
      ASSERT_TRUE(caller().disconnect(network->now(), id).ok());
      settle();
    }
    network->take_trace();
    network->events(0).clear();
    network->events(1).clear();
    const bool by_caller = farewell[0] == '0';
    (by_caller ? caller() : server()).destroy(network->now(), by_caller ? id : server_id);
    settle();
    ASSERT_FALSE(network->take_trace().empty());
    // The other side was notified.
    const unsigned other = by_caller ? 1 : 0;
    ASSERT_EQ(network->events(other).size(), 1u) << farewell;
    (by_caller ? server() : caller()).destroy(network->now(), by_caller ? server_id : id);
    network->run_to_silence();
    EXPECT_EQ(caller().connections(), 0u) << farewell;
    EXPECT_EQ(server().connections(), 0u) << farewell;
    EXPECT_EQ(server().tombstones() + caller().tombstones(), 0u);
  }
}

TEST_F(Close, AServerThatLetsGoAfterItsRepRefusesTheRtuToo) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  settle();
  expect_event<ConnectReply>(0);
  drop_next(CmAttribute::kRej);
  server().destroy(network->now(), server_id);
  settle();
  ASSERT_TRUE(caller().send_rtu(id).ok());
  settle();
  const auto rejected = expect_event<Rejected>(0).second;
  EXPECT_TRUE(rejected.was_established);
}

TEST_F(Close, TimewaitLastsAsLongAsItIsToldAndKeepsTheQueuePair) {
  const auto [id, server_id] = connected();
  server().set_timewait_length([](OwnerToken, const wire::Gid&) { return std::optional(seconds(30)); });
  ASSERT_TRUE(caller().disconnect(network->now(), id).ok());
  settle();
  ASSERT_TRUE(server().disconnect(network->now(), server_id).ok());
  network->run_for(seconds(20));
  EXPECT_EQ(server().state_of(server_id), State::kTimeWait);
  caller().destroy(network->now(), id);
  network->events(0).clear();
  network->events(1).clear();
  call();
  settle();
  EXPECT_EQ(expect_event<Rejected>(0).second.reason, RejectReason::kStaleConnection);
  EXPECT_TRUE(network->events(1).empty());
  network->run_for(seconds(11));
  EXPECT_EQ(expect_event<TimeWaitExit>(1).first.id, server_id);
  call();
  settle();
  expect_event<ConnectRequest>(1);
}

TEST_F(Close, AQueuePairThatCallsAnewEndsItsOldConnection) {
  const auto [id, server_id] = connected();
  // The caller's host has lost the state of the connection, and its QPN is in use again.
  network->filter = [](unsigned from, const wire::CmMad&) { return from != 0; };
  caller().destroy(network->now(), id);
  network->run_for(seconds(200));
  network->filter = nullptr;
  network->take_trace();
  const ConnectionId again = call();
  settle();
  EXPECT_EQ(expect_event<Rejected>(0).second.reason, RejectReason::kStaleConnection);
  EXPECT_EQ(caller().state_of(again), State::kTimeWait);
  EXPECT_EQ(network->take_trace(), (Trace{"0>1 REQ", "1>0 REP", "1>0 REJ", "0>1 REJ"}));
  EXPECT_EQ(expect_event<Disconnected>(1).first.id, server_id);
  network->run_for(seconds(1));
  call();
  settle();
  expect_event<TimeWaitExit>(1);
  expect_event<ConnectRequest>(1);
}

// Anybody who knows an address and a QPN can send such a REQ in the caller's name.
TEST_F(Close, ACallInThePeersNameEndsNoConnection) {
  const auto [id, server_id] = connected();
  wire::CmReq forged{.local_comm_id = {4711}, .local_qpn = wire::Qpn(17), .path_mtu = 3};
  network->filter = [&](unsigned, const wire::CmMad& mad) {
    if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) forged = *req;
    return true;
  };
  call(77);
  settle();
  network->events(0).clear();
  network->events(1).clear();
  forged.local_qpn = wire::Qpn(17);  // that of connected()
  for (std::uint32_t i = 0; i < 20; ++i) {
    forged.local_comm_id = {5000 + i};
    network->inject(0, 1, {.transaction_id = i, .message = forged});
    settle();
  }
  network->run_for(seconds(300));
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
  EXPECT_EQ(caller().state_of(id), State::kEstablished);
}

// The peer does not answer the question, so it has lost the connection.
TEST_F(Close, ACallFromAPeerThatSaysNothingEndsItsOldConnection) {
  const auto [id, server_id] = connected();
  network->filter = [](unsigned from, const wire::CmMad& mad) {
    return from != 0 || std::holds_alternative<wire::CmReq>(mad.message);
  };
  caller().destroy(network->now(), id);
  network->run_for(seconds(200));
  call();
  settle();
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
  network->run_for(seconds(300));
  EXPECT_EQ(expect_event<Disconnected>(1).first.id, server_id);
}

// A restarted host may reuse a communication ID.
class Anew : public Close {
 protected:
  Anew() {
    network->filter = [this](unsigned, const wire::CmMad& mad) {
      if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) last_ = *req;
      return true;
    };
  }
  // Repeats the last REQ with another queue pair and PSN, as after a restart.
  void call_anew(std::uint32_t qpn) {
    wire::CmReq req = last_;
    req.local_qpn = wire::Qpn(qpn);
    req.starting_psn = req.starting_psn + 7;
    network->inject(0, 1, {.transaction_id = 4711, .message = req});
    settle();
  }

 private:
  wire::CmReq last_;
};

TEST_F(Anew, WhoWasRefusedMayCallAgain) {
  call();
  settle();
  const ConnectionId refused = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().reject(network->now(), refused, {}).ok());
  server().destroy(network->now(), refused);
  settle();
  expect_event<Rejected>(0);
  network->take_trace();
  call_anew(18);
  EXPECT_EQ(expect_event<ConnectRequest>(1).second.remote_qpn, wire::Qpn(18));
  EXPECT_EQ(network->take_trace(), Trace{});  // only the owner answers
  // The end of the first connection does not affect the second.
  network->run_for(seconds(5));
  call_anew(18);
  EXPECT_TRUE(network->events(1).empty());
}

TEST_F(Anew, WhoseConnectionHasEndedMayCallAgain) {
  const auto [id, server_id] = connected();
  ASSERT_TRUE(server().disconnect(network->now(), server_id).ok());
  settle();
  expect_event<Disconnected>(0);
  ASSERT_TRUE(caller().disconnect(network->now(), id).ok());
  settle();
  expect_event<Disconnected>(1);
  ASSERT_EQ(server().state_of(server_id), State::kTimeWait);
  call_anew(17);
  expect_event<ConnectRequest>(1);
}

TEST_F(Anew, WhoIsStillConnectedIsToldSo) {
  const auto [id, server_id] = connected();
  caller().destroy(network->now(), id);
  network->take_trace();
  settle();
  expect_event<Disconnected>(1);
  ASSERT_EQ(server().state_of(server_id), State::kDreqReceived);
  network->take_trace();
  call_anew(18);
  EXPECT_EQ(network->take_trace(), (Trace{"1>0 REJ"}));
  const auto [second, second_id] = connected(19, 34);
  call_anew(20);
  EXPECT_EQ(server().state_of(second_id), State::kEstablished) << "its peer was asked, and knows it";
  EXPECT_EQ(network->take_trace(), (Trace{"1>0 REP", "1>0 REJ", "0>1 RTU"}));
}

TEST_F(Close, ARepFromAQueuePairThatIsConnectedIsStale) {
  const auto [id, server_id] = connected(17, 33);
  call(18);
  settle();
  const ConnectionId second = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), second, test_acceptance(33)).ok());
  settle();
  EXPECT_EQ(expect_event<Rejected>(0).second.reason, RejectReason::kStaleConnection);
  EXPECT_EQ(caller().state_of(id), State::kEstablished) << "anybody may say such a REP";
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
}

TEST_F(Close, AlternatePathsAreRefusedProperly) {
  const auto [id, server_id] = connected();
  const ConnectionId caller_id = id;
  std::vector<wire::AlternatePathStatus> statuses;
  network->filter = [&](unsigned, const wire::CmMad& mad) {
    if (const auto* apr = std::get_if<wire::CmApr>(&mad.message)) {
      statuses.push_back(apr->status);
      EXPECT_EQ(apr->remote_comm_id, caller_id);
      EXPECT_EQ(mad.transaction_id, 9u);
    }
    return true;
  };
  wire::CmLap lap{.local_comm_id = id, .remote_comm_id = server_id, .remote_qpn = wire::Qpn(33)};
  network->inject(0, 1, {.transaction_id = 9, .message = lap});
  lap.remote_qpn = wire::Qpn(34);
  network->inject(0, 1, {.transaction_id = 9, .message = lap});
  lap.remote_comm_id = {server_id.value + 1};
  network->inject(0, 1, {.transaction_id = 9, .message = lap});
  using enum wire::AlternatePathStatus;
  EXPECT_EQ(statuses, (std::vector{kNotSupported, kInvalidQpn, kInvalidCommId}));
  // An unsolicited APR.
  network->inject(0, 1, {.message = wire::CmApr{.local_comm_id = id, .remote_comm_id = server_id}});
  EXPECT_EQ(server().counters().unmatched, 1u);
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
}

TEST_F(Close, MessagesFromSomebodyElseTouchNothing) {
  network->add_host();
  const auto [id, server_id] = connected();
  network->inject(2, 1,
                  {.message = wire::CmDreq{
                       .local_comm_id = id, .remote_comm_id = server_id, .remote_qpn = wire::Qpn(33)}});
  network->inject(2, 1,
                  {.message = wire::CmRej{.local_comm_id = id,
                                          .remote_comm_id = server_id,
                                          .kind = wire::CmMessageKind::kOther,
                                          .reason = RejectReason::kConsumerDefined}});
  network->inject(2, 1,
                  {.message = wire::CmRej{.local_comm_id = id,
                                          .remote_comm_id = server_id,
                                          .kind = wire::CmMessageKind::kOther,
                                          .reason = RejectReason::kTimeout}});
  network->inject(2, 1,
                  {.message = wire::CmLap{
                       .local_comm_id = id, .remote_comm_id = server_id, .remote_qpn = wire::Qpn(33)}});
  const ConnectionId half = call(18);
  settle();
  const ConnectionId asked = expect_event<ConnectRequest>(1).first.id;
  network->inject(
      2, 0,
      {.message = wire::CmRep{.local_comm_id = asked, .remote_comm_id = half, .local_qpn = wire::Qpn(34)}});
  network->inject(
      2, 0, {.message = wire::CmMra{.local_comm_id = asked, .remote_comm_id = half, .service_timeout = 31}});
  network->inject(2, 0,
                  {.message = wire::CmRej{.remote_comm_id = half, .reason = RejectReason::kConsumerDefined}});
  ASSERT_TRUE(server().accept(network->now(), asked, test_acceptance(34)).ok());
  network->inject(2, 1, {.message = wire::CmRtu{.local_comm_id = half, .remote_comm_id = asked}});
  ASSERT_TRUE(caller().disconnect(network->now(), id).ok());
  network->inject(2, 0, {.message = wire::CmDrep{.local_comm_id = server_id, .remote_comm_id = id}});
  EXPECT_EQ(caller().state_of(id), State::kDreqSent);
  EXPECT_EQ(caller().state_of(half), State::kReqSent);
  EXPECT_EQ(server().state_of(server_id), State::kEstablished);
  EXPECT_EQ(server().state_of(asked), State::kRepSent);
  EXPECT_EQ(caller().counters().wrong_peer, 4u);
  EXPECT_EQ(server().counters().wrong_peer, 5u);
  EXPECT_TRUE(network->events(0).empty());
  EXPECT_TRUE(network->events(1).empty());
}

TEST_F(Close, ARestartedHostGoesOnWithWhatItsOwnersRemember) {
  const auto [id, server_id] = connected();
  const auto memory = server().snapshot(server_id);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(server().restore(*memory, 1).error(), Error::kIdInUse);
  // Host 2 takes the server's place: same address, no state.
  Settings settings;
  Endpoint restarted(settings, KeySource(77));
  ASSERT_TRUE(restarted.restore(*memory, 4711).ok());
  EXPECT_EQ(restarted.restore(*memory, 4711).error(), Error::kIdInUse);
  EXPECT_EQ(restarted.qp_attributes(server_id, QpStep::kReadyToSend)->destination_qpn, wire::Qpn(17));
  const wire::CmMad dreq{
      .transaction_id = 3,
      .message = wire::CmDreq{.local_comm_id = id, .remote_comm_id = server_id, .remote_qpn = wire::Qpn(33)}};
  restarted.handle_mad(network->now(), {.local = test_gid(1), .remote = test_gid(0)},
                       wire::emit_cm_mad(dreq));
  const auto event = restarted.poll_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->owner, 4711u);
  EXPECT_TRUE(std::holds_alternative<Disconnected>(event->details));
  EXPECT_EQ(caller().snapshot({5}).error(), Error::kUnknownConnection);

  // A restored active half repeats its RTU although it no longer has the original.
  Endpoint caller_again(settings, KeySource(78));
  ASSERT_TRUE(caller_again.restore(*caller().snapshot(id), 1).ok());
  const wire::CmMad rep{
      .message = wire::CmRep{.local_comm_id = server_id, .remote_comm_id = id, .local_qpn = wire::Qpn(33)}};
  caller_again.handle_mad(network->now(), {.local = test_gid(0), .remote = test_gid(1)},
                          wire::emit_cm_mad(rep));
  const auto rtu = caller_again.poll_mad();
  ASSERT_TRUE(rtu.has_value());
  EXPECT_TRUE(std::holds_alternative<wire::CmRtu>(wire::parse_cm_mad(rtu->octets)->message));
}

TEST_F(Close, NoEventComesForWhatWasDestroyed) {
  const ConnectionId id = call();
  settle();
  const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
  ASSERT_TRUE(server().accept(network->now(), server_id, test_acceptance(33)).ok());
  // The REP arrives, but the owner destroys the connection before it polls.
  const auto rep = server().poll_mad();
  caller().handle_mad(network->now(), {.local = test_gid(0), .remote = test_gid(1)}, rep->octets);
  caller().destroy(network->now(), id);
  EXPECT_FALSE(caller().poll_event().has_value());
}

}  // namespace rrdma::cm::close_test
