// The sources of a Client's addresses: a name with several addresses, a resolver of the program, and a file
// that changes.
#include <arpa/inet.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "rrdma/rpc/client.h"
#include "tests/libraries/rpc/world.h"

namespace rpc_test::resolve_test {

// Says which server it is, after a while if it is asked to.
struct Booth {
  Task<Result<std::uint32_t>> name(Call& call, const std::uint32_t& ms) {
    ++calls;
    static_cast<void>(co_await call.context().sleep(std::chrono::milliseconds(ms), call.stop()));
    co_return number;
  }
  std::uint32_t number = 0;
  unsigned calls = 0;
};

class Sources : public ::testing::Test {
 protected:
  struct Place {
    Place(Context& context, std::uint32_t number, const std::string& where) : server(context) {
      booth.number = number;
      server.add<&Booth::name>(booth);
      const Status listening = server.listen(where);
      EXPECT_TRUE(listening.ok()) << listening.what();
    }
    [[nodiscard]] std::string address() const { return std::string(server.address()); }
    Booth booth;
    Server server;
  };
  Sources()
      : context_(Context::open(ContextOptions{}).value_or_throw()),
        one_(context_, 1, address_of(context_) + ":0"),
        two_(context_, 2, address_of(context_) + ":0") {}
  template <typename T>
  T run(Task<T> task) {
    return context_.run(std::move(task));
  }
  static Task<Result<std::uint32_t>> ask(Client& client, std::uint32_t ms = 0) {
    return client.call<&Booth::name>(ms, kPatience);
  }
  static ClientOptions quick() {
    ClientOptions options;
    options.look_again = 20ms;
    options.first_pause = 1ms;
    options.wait_for_ready = true;
    return options;
  }
  // Asks until this server answers.
  bool reaches(Client& client, std::uint32_t number) {
    for (const auto until = Clock::now() + kPatience; Clock::now() < until;) {
      auto answer = run(ask(client));
      if (answer.ok() && *answer == number) return true;
      context_.run_until([] { return false; }, Clock::now() + 5ms);
    }
    return false;
  }
  Context context_;
  Place one_, two_;
};

// ---- a resolver of the program ----

struct Directory {
  std::vector<std::string> addresses;
  Status status;
  std::vector<std::string> asked;
  Resolver resolver() {
    return [this](std::string name) -> Task<Result<std::vector<std::string>>> {
      asked.push_back(name);
      if (!status.ok()) co_return status;
      co_return addresses;
    };
  }
};

TEST_F(Sources, AResolverGivesSeveralAddresses) {
  Directory directory;
  directory.addresses = {one_.address(), two_.address()};
  ClientOptions options = quick();
  options.resolve = directory.resolver();
  options.pick = Pick::kRoundRobin;
  Client client(context_, {"booths:1"}, options);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(run(ask(client)).ok());
  EXPECT_EQ(one_.booth.calls, 5U);
  EXPECT_EQ(two_.booth.calls, 5U);
  EXPECT_EQ(directory.asked, std::vector<std::string>{"booths:1"}) << "once, while all is well";
}

TEST_F(Sources, ANameIsLookedUpAgainAfterALoss) {
  Directory directory;
  directory.addresses = {one_.address()};
  ClientOptions options = quick();
  options.resolve = directory.resolver();
  Client client(context_, {"booths:1"}, options);
  EXPECT_EQ(run(ask(client)).value(), 1U);
  directory.addresses = {two_.address()};
  one_.server.abort();
  EXPECT_TRUE(reaches(client, 2));
}

TEST_F(Sources, ANameThatIsNotKnownYet) {
  Directory directory;
  directory.status = Status(Code::kNotFound, "no such booth");
  ClientOptions options = quick();
  options.resolve = directory.resolver();
  options.wait_for_ready = false;
  options.tries = 1;
  Client client(context_, {"booths:1"}, options);
  const Status status = run(ask(client)).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("booths:1: no such booth"), std::string::npos) << status.what();
  directory.status = Status();
  directory.addresses = {two_.address()};
  EXPECT_TRUE(reaches(client, 2));
}

// ---- a file ----

class File {
 public:
  File() {
    std::string folder = "/tmp/rrdma-resolve.XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    path_ = folder + "/addresses";
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::filesystem::remove_all(std::filesystem::path(path_).parent_path()); }
  // Replaces the file at once, as programs should.
  void write(const std::string& text) const {
    std::ofstream(path_ + ".new") << text;
    std::rename((path_ + ".new").c_str(), path_.c_str());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_F(Sources, AFileIsWatched) {
  const File file;
  file.write("# booths\n\n  " + one_.address() + "  # the first\r\n");
  Client client(context_, {"file:" + file.path()}, quick());
  EXPECT_EQ(run(ask(client)).value(), 1U);
  auto in_flight = ask(client, 300);
  in_flight.start(std::noop_coroutine());
  EXPECT_TRUE(context_.run_until([&] { return one_.booth.calls == 2; }, Clock::now() + kPatience));
  file.write(two_.address() + "\n");
  EXPECT_TRUE(reaches(client, 2));
  const unsigned calls = one_.booth.calls;
  EXPECT_TRUE(context_.run_until([&] { return in_flight.done(); }, Clock::now() + kPatience));
  EXPECT_EQ(in_flight.take().value(), 1U) << "a call in flight ends where it began";
  EXPECT_EQ(run(ask(client)).value(), 2U);
  EXPECT_EQ(one_.booth.calls, calls);
  EXPECT_TRUE(context_.run_until([&] { return one_.server.connections() == 0; }, Clock::now() + kPatience))
      << "nobody needs that connection any more";
  // An address that stays keeps its connection.
  file.write(two_.address() + "\n" + one_.address() + "\n");
  context_.run_until([] { return false; }, Clock::now() + 100ms);
  EXPECT_EQ(run(ask(client)).value(), 2U);
  EXPECT_EQ(two_.server.counters().connections, 1U);
}

// The longest interval means never.
TEST_F(Sources, AreNotLookedAtAgain) {
  const File file;
  file.write(one_.address());
  ClientOptions options = quick();
  options.look_again = std::chrono::milliseconds::max();
  Client client(context_, {"file:" + file.path()}, options);
  EXPECT_EQ(run(ask(client)).value(), 1U);
  file.write(two_.address());
  context_.run_until([] { return false; }, Clock::now() + 20ms);
  EXPECT_EQ(run(ask(client)).value(), 1U);
  EXPECT_EQ(two_.booth.calls, 0U);
}

TEST_F(Sources, AFileThatComesLater) {
  const File file;
  ClientOptions options = quick();
  options.wait_for_ready = false;
  options.tries = 1;
  Client client(context_, {"file:" + file.path()}, options);
  const Status status = run(ask(client)).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find(file.path()), std::string::npos) << status.what();
  file.write(one_.address());
  EXPECT_TRUE(reaches(client, 1));
  // A file that is gone changes nothing.
  std::remove(file.path().c_str());
  context_.run_until([] { return false; }, Clock::now() + 100ms);
  EXPECT_EQ(run(ask(client)).value(), 1U);
}

// ---- a name with several addresses, as the system has it ----

// Gives this thread, and threads that it starts, names of their own. False if this is not permitted.
bool have_names(const std::string& text) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return false;
  const File file;
  file.write(text);
  return ::mount(file.path().c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
}

bool is_own_address(const char* text) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  ::inet_pton(AF_INET6, text, &address.sin6_addr);
  const int socket = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool own = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return own;
}

TEST(Names, HaveSeveralAddresses) {
  if (!is_own_address("fd09::1")) GTEST_SKIP() << "needs the addresses of tests/libraries/comm/links.py";
  bool permitted = false;
  std::thread([&permitted] {
    auto context = Context::open(ContextOptions{}).value_or_throw();
    const std::string own = address_of(context);
    if (!have_names(own + " booths.example\nfd09::1 booths.example\n")) return;
    permitted = true;
    Booth booth;
    Server server(context);
    server.add<&Booth::name>(booth);
    ASSERT_TRUE(server.listen(":0").ok());
    const std::string name = "booths.example:" + std::to_string(server.port());
    auto looking = context.look_up(name, kPatience);
    looking.start();
    EXPECT_TRUE(context.run_until([&] { return looking.done(); }, Clock::now() + kPatience));
    EXPECT_EQ(looking.await_resume().value_or_throw().size(), 2U);
    ClientOptions options;
    options.pick = Pick::kRoundRobin;
    Client client(context, {name}, options);
    EXPECT_TRUE(context.run(client.call<&Booth::name>(0U, kPatience)).ok());
    EXPECT_TRUE(
        context.run_until([&] { return client.counters().connections == 2; }, Clock::now() + kPatience))
        << client.counters().connections;
  }).join();
  if (!permitted) GTEST_SKIP() << "names of one's own are not permitted here";
}

}  // namespace rpc_test::resolve_test
