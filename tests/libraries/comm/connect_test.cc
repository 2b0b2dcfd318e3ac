// Connections: how they are established, the data exchanged, and every way to fail.
#include <rdma/rdma_cma.h>

#include <cstring>
#include <thread>

#include "tests/libraries/comm/world.h"

namespace comm_test::connect_test {

class Connections : public World {};

TEST_F(Connections, BothEndsKnowEachOther) {
  Profile client;
  client.message_limit = 1000;
  client.receive_depth = 12;
  client.hello = std::as_bytes(std::span<const char>("from the client", 15));
  Profile server;
  server.message_limit = 2000;
  server.hello = std::as_bytes(std::span<const char>("from the server", 15));
  Pair pair = connect(client, server);
  EXPECT_EQ(pair.client.peer(), address());
  EXPECT_EQ(pair.server.peer(), pair.client.local());
  EXPECT_EQ(pair.client.message_limit(), 2000U);
  EXPECT_EQ(pair.server.message_limit(), 1000U);
  EXPECT_EQ(pair.server.credits(), 11U);
  const auto text = [](std::span<const std::byte> octets) {
    return std::string(reinterpret_cast<const char*>(octets.data()), octets.size());
  };
  EXPECT_EQ(text(pair.server.hello()), "from the client");
  EXPECT_EQ(text(pair.client.hello()), "from the server");
}

TEST_F(Connections, EveryAddressOfTheDeviceAndAnyPort) {
  Listener any = context_.listen(":0").value_or_throw();
  for (const std::string& address : context_.device().addresses) {
    if (address.starts_with("fe80")) continue;
    const std::string host = address.find(':') == std::string::npos ? address : "[" + address + "]";
    run([](Context& context, Listener& listener, std::string where) -> Task<> {
      auto [near, far] = co_await when_all(context.connect(where, kPatience), listener.accept(kPatience));
      EXPECT_TRUE(near.ok()) << near.error().what();
      EXPECT_TRUE(far.ok());
      (co_await near->send("x", kPatience)).value_or_throw();
      EXPECT_EQ((co_await far->receive(kPatience)).value_or_throw().text(), "x");
    }(context_, any, host + ":" + std::to_string(any.port())));
  }
}

TEST_F(Connections, NobodyListens) {
  auto end = run(as_task(context_.connect(address_of(context_) + ":1", kPatience)));
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().code(), Code::kRefused) << end.error().what();
  EXPECT_NE(end.error().what().find(address_of(context_) + ":1"), std::string::npos) << end.error().what();
  settle();
}

TEST_F(Connections, BadAddresses) {
  for (const char* text : {"", "nowhere", "10.9.0.1", ":7000", "10.9.0.1:70000", "10.9.0.1:x", "::1:7000",
                           "no.such.name.invalid:7000"}) {
    auto end = run(as_task(context_.connect(text, kPatience)));
    ASSERT_FALSE(end.ok()) << text;
    EXPECT_EQ(end.error().code(), Code::kBadAddress) << end.error().what();
    EXPECT_FALSE(end.error().remedy().empty());
  }
  EXPECT_FALSE(context_.listen("10.9.0.1").ok());
  EXPECT_FALSE(context_.listen("192.0.2.77:7000").ok()) << "not an address of this machine";
  const Error taken = context_.listen(address()).error();
  EXPECT_EQ(taken.code(), Code::kInUse) << taken.what();
  settle();
}

TEST_F(Connections, NoRoute) {
  auto end = run(as_task(context_.connect("192.0.2.77:7000", 300ms)));
  ASSERT_FALSE(end.ok());
  EXPECT_TRUE(end.error().code() == Code::kUnreachable || end.error().code() == Code::kDeadline)
      << end.error().what();
}

TEST_F(Connections, NoSuchDevice) {
  ContextOptions options;
  options.device = "no_such_device";
  auto context = Context::open(options);
  ASSERT_FALSE(context.ok());
  EXPECT_EQ(context.error().code(), Code::kNoDevice);
  EXPECT_NE(context.error().what().find("no_such_device"), std::string::npos);
  EXPECT_NE(context.error().what().find(context_.device().name), std::string::npos)
      << "it says what there is";
}

TEST_F(Connections, RefusedWithAReason) {
  run([](Context& context, Listener& listener, std::string where) -> Task<> {
    Scope scope;
    scope.spawn([](Listener& l) -> Task<> {
      Incoming incoming = (co_await l.next(kPatience)).value_or_throw();
      EXPECT_FALSE(incoming.peer().empty());
      incoming.refuse(17, "come back tomorrow");
    }(listener));
    auto end = co_await context.connect(where, kPatience);
    EXPECT_EQ(end.error().code(), Code::kRefused);
    EXPECT_EQ(end.error().detail(), 17);
    EXPECT_EQ(end.error().note(), "come back tomorrow");
    co_await scope.join();
  }(context_, listener_, address()));
  settle();
}

TEST_F(Connections, ADroppedRequestIsRefused) {
  run([](Context& context, Listener& listener, std::string where) -> Task<> {
    Scope scope;
    scope.spawn([](Listener& l) -> Task<> { (co_await l.next(kPatience)).value_or_throw(); }(listener));
    auto end = co_await context.connect(where, kPatience);
    EXPECT_EQ(end.error().code(), Code::kRefused);
  }(context_, listener_, address()));
}

TEST_F(Connections, TheListenerGoesAway) {
  run([](Context& context, std::string host) -> Task<> {
    auto listener = context.listen(host + ":0");
    Scope scope;
    scope.spawn([](Listener& l) -> Task<> {
      auto end = co_await l.accept(kPatience);
      EXPECT_EQ(end.error().code(), Code::kClosed);
    }(*listener));
    *listener = Listener();
    co_await scope.join();
  }(context_, address_of(context_)));
}

// A connection request with arbitrary private data.
int foreign_connect(const std::string& host, std::uint16_t port, const std::string& octets,
                    std::string* answer) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP);
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* found = nullptr;
  rdma_getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  int last = -1;
  rdma_resolve_addr(id, nullptr, found->ai_dst_addr, 2000);
  for (bool over = false; !over;) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel, &event) != 0) break;
    last = event->event;
    if (event->event == RDMA_CM_EVENT_REJECTED && event->param.conn.private_data != nullptr) {
      answer->assign(static_cast<const char*>(event->param.conn.private_data),
                     event->param.conn.private_data_len);
    }
    rdma_ack_cm_event(event);
    if (last == RDMA_CM_EVENT_ADDR_RESOLVED) {
      rdma_resolve_route(id, 2000);
    } else if (last == RDMA_CM_EVENT_ROUTE_RESOLVED) {
      ibv_qp_init_attr attributes{};
      attributes.qp_type = IBV_QPT_RC;
      attributes.cap = {4, 4, 1, 1, 0};
      rdma_create_qp(id, nullptr, &attributes);
      rdma_conn_param parameters{};
      parameters.private_data = octets.data();
      parameters.private_data_len = static_cast<std::uint8_t>(octets.size());
      rdma_connect(id, &parameters);
    } else {
      over = true;
    }
  }
  rdma_freeaddrinfo(found);
  if (id->qp != nullptr) rdma_destroy_qp(id);
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
  return last;
}

TEST_F(Connections, StrangersAreRefusedWithAReason) {
  const std::string wrong_version = std::string("Rc\x7f\0\0\x40\0\0\0\0\x10\0", 12);
  const std::string too_long = std::string("Rc\x01\x60\0\x40", 6);
  const std::string no_room = std::string("Rc\x01\0\0\x01\0\0\0\0\x10\0", 12);
  for (const std::string& octets :
       {std::string(), std::string("GET / HTTP/1.1"), wrong_version, too_long, no_room}) {
    std::string answer;  // used by the stranger until it is joined
    bool ended = false;
    std::thread stranger([&] {
      EXPECT_EQ(foreign_connect(address_of(context_), listener_.port(), octets, &answer),
                RDMA_CM_EVENT_REJECTED);
      context_.post([&] { ended = true; });
    });
    EXPECT_TRUE(context_.run_until([&] { return ended; }, Clock::now() + kPatience));
    stranger.join();
    EXPECT_NE(answer.find("this end speaks"), std::string::npos);
  }
}

// One context receives a request and another one accepts it, in another thread.
TEST_F(Connections, HandedToAnotherContext) {
  std::thread worker;
  run([](Context& context, Listener& listener, std::string where, std::thread& thread) -> Task<> {
    Scope scope;
    scope.spawn([](Listener& l, std::thread& t) -> Task<> {
      Incoming incoming = (co_await l.next(kPatience)).value_or_throw();
      t = std::thread([in = std::move(incoming)]() mutable {
        Context other = Context::open().value_or_throw();
        other.run([](Context& c, Incoming& i) -> Task<> {
          Endpoint end = (co_await i.accept(c, {}, kPatience)).value_or_throw();
          Message message = (co_await end.receive(kPatience)).value_or_throw();
          (co_await end.send(message.bytes(), kPatience)).value_or_throw();
          (co_await end.close(kPatience)).value_or_throw();
        }(other, in));
      });
    }(listener, thread));
    Endpoint end = (co_await context.connect(where, kPatience)).value_or_throw();
    (co_await end.send("elsewhere", kPatience)).value_or_throw();
    EXPECT_EQ((co_await end.receive(kPatience)).value_or_throw().text(), "elsewhere");
    EXPECT_EQ((co_await end.receive(kPatience)).error().code(), Code::kClosedByPeer);
    co_await scope.join();
  }(context_, listener_, address(), worker));
  worker.join();
}

TEST_F(Connections, ManyAtOnce) {
  constexpr std::size_t kCount = 40;
  Profile small;
  small.receive_depth = 8;
  small.send_depth = 8;
  std::vector<Endpoint> far;
  run([](Context& context, Listener& listener, std::string where, Profile profile,
         std::vector<Endpoint>& ends) -> Task<> {
    Scope scope;
    scope.spawn([](Listener& l, Profile p, std::vector<Endpoint>& e) -> Task<> {
      while (e.size() < kCount) e.push_back((co_await l.accept(p, kPatience)).value_or_throw());
    }(listener, profile, ends));
    std::vector<Task<Result<Endpoint>>> connecting;
    for (std::size_t i = 0; i < kCount; ++i)
      connecting.push_back(as_task(context.connect(where, profile, kPatience)));
    auto near = co_await when_all(std::move(connecting));
    co_await scope.join();
    for (auto& end : near) (co_await end->send(end->local(), kPatience)).value_or_throw();
    for (auto& end : ends) EXPECT_EQ((co_await end.receive(kPatience)).value_or_throw().text(), end.peer());
  }(context_, listener_, address(), small, far));
  far.clear();
  settle();
}

}  // namespace comm_test::connect_test
