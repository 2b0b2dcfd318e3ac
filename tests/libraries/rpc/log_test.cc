// The events of connections that a program gets for its log.
#include <string>
#include <vector>

#include "tests/libraries/rpc/world.h"

namespace rpc_test::log_test {

struct Entry {
  LogLevel level;
  std::string event, peer, words;
};
using Entries = std::vector<Entry>;

Log log_into(Entries& entries) {
  return [&entries](const LogEvent& event) {
    entries.push_back(
        {event.level, std::string(event.event), std::string(event.peer), std::string(event.words)});
  };
}
std::string events_of(const Entries& entries) {
  std::string all;
  for (const Entry& entry : entries) all += (all.empty() ? "" : " ") + entry.event;
  return all;
}

class Logs : public ::testing::Test {
 protected:
  Logs() : context_(Context::open(ContextOptions{}).value_or_throw()) {}
  std::unique_ptr<Server> open(const std::string& where) {
    ServerOptions options;
    options.secret = "open sesame";
    options.log = log_into(at_server_);
    auto server = std::make_unique<Server>(context_, options);
    add_all(*server, desk_);
    EXPECT_TRUE(server->listen(where).ok());
    return server;
  }
  Context context_;
  Desk desk_;
  Entries at_server_;
  Entries at_client_;
};

TEST_F(Logs, HoldTheEventsOfConnections) {
  auto server = open(address_of(context_) + ":0");
  const std::string where(server->address());
  const auto refused = context_.run(rrdma::rpc::connect(context_, where, {}, kPatience));
  EXPECT_FALSE(refused.ok());
  ASSERT_EQ(events_of(at_server_), "refused");
  EXPECT_EQ(at_server_[0].level, LogLevel::kWarning);
  EXPECT_EQ(at_server_[0].words, "this server asks for a shared secret");
  EXPECT_NE(at_server_[0].peer, "");
  ClientOptions options;
  options.channel.secret = "open sesame";
  options.channel.encryption = Encryption::kAlways;
  options.log = log_into(at_client_);
  Client client(context_, {where}, options);
  EXPECT_EQ(context_.run(client.call<&Desk::add>({1, 2}, kPatience)).value(), 3U);
  EXPECT_EQ(events_of(at_server_), "refused connected");
  EXPECT_EQ(at_server_[1].words, "encrypted");
  EXPECT_EQ(events_of(at_client_), "connected");
  EXPECT_EQ(at_client_[0].peer, where);
  server.reset();
  EXPECT_FALSE(context_.run(client.call<&Desk::add>({1, 2}, kPatience)).ok());
  ASSERT_TRUE(context_.run_until([&] { return at_client_.size() >= 3; }, Clock::now() + kPatience));
  EXPECT_EQ(at_client_[1].event, "lost");
  EXPECT_EQ(at_client_[2].event, "failed");
  EXPECT_NE(at_client_[2].words, "");
}

}  // namespace rpc_test::log_test
