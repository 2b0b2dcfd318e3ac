// TestPair: a fixture with one caller (host 0), one listening server (host 1), and a network between them.
// The tests act as the owners. Traces read "from>to message". For tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cm/test_network.h"

namespace rrdma::cm {

using Trace = std::vector<std::string>;

class TestPair : public ::testing::Test {
 protected:
  TestPair() { start({}); }

  void start(const Settings& settings, TestFaults faults = {}) {
    network = std::make_unique<TestNetwork>(1, faults);
    network->add_host(settings);
    network->add_host(settings);
    ASSERT_TRUE(network->host(1).listen({.owner = 99, .service_id = kTestService}).ok());
  }
  Endpoint& caller() { return network->host(0); }
  Endpoint& server() { return network->host(1); }
  ConnectionId call(std::uint32_t qpn = 17) {
    return *caller().connect(network->now(), test_call(0, 1, qpn));
  }
  void settle() { network->run_for(milliseconds(1)); }
  // The next event of the host, which must be a T.
  template <typename T>
  std::pair<Event, T> expect_event(unsigned host) {
    auto& events = network->events(host);
    if (events.empty()) {
      ADD_FAILURE() << "no event";
      return {};
    }
    const Event event = events.front();
    events.pop_front();
    EXPECT_TRUE(std::holds_alternative<T>(event.details)) << event_name(event.details);
    if (!std::holds_alternative<T>(event.details)) return {event, T{}};
    return {event, std::get<T>(event.details)};
  }
  void drop_next(wire::CmAttribute attribute, int count = 1) {
    network->filter = [attribute, left = count](unsigned, const wire::CmMad& mad) mutable {
      return wire::attribute_of(mad.message) != attribute || left-- <= 0;
    };
  }

  // Establishes a connection and returns the caller's and the server's ID. No events are left over.
  std::pair<ConnectionId, ConnectionId> connected(std::uint32_t caller_qpn = 17,
                                                  std::uint32_t server_qpn = 33) {
    const ConnectionId id = call(caller_qpn);
    settle();
    const ConnectionId server_id = expect_event<ConnectRequest>(1).first.id;
    EXPECT_TRUE(server().accept(network->now(), server_id, test_acceptance(server_qpn)).ok());
    settle();
    expect_event<ConnectReply>(0);
    EXPECT_TRUE(caller().send_rtu(id).ok());
    settle();
    expect_event<Established>(1);
    network->take_trace();
    return {id, server_id};
  }

  std::unique_ptr<TestNetwork> network;
};

}  // namespace rrdma::cm
