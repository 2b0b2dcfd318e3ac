// For the attacks on rrdmad: users, a system daemon that must survive, and a client that says what it likes.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "control/message_socket.h"
#include "control/names.h"
#include "daemon/test_surroundings.h"

namespace rrdma::daemon {

inline constexpr uid_t kAlice = 54321;
inline constexpr uid_t kMallory = 54322;

inline std::uint64_t counter(control::DaemonClient& client, const std::string& name) {
  const auto status = client.status();
  if (!status.ok()) return 0;
  for (const auto& one : status->counters) {
    if (one.name == name) return one.value;
  }
  return 0;
}

// A connection that says what it likes.
class RawClient {
 public:
  explicit RawClient(const std::string& name) : socket_(control::connect_to(name)) {
    EXPECT_TRUE(socket_.valid()) << name;
  }
  bool send(const std::vector<std::uint8_t>& datagram, std::span<const int> fds = {}) {
    return control::send_datagram(socket_.get(), datagram, fds) == control::SendOutcome::kSent;
  }
  // The next message; nothing when the daemon has hung up.
  std::optional<control::Received> receive() {
    control::Received message;
    auto outcome = control::ReceiveOutcome::kNothing;
    EXPECT_TRUE(eventually([&] {
      outcome = control::receive_message(socket_.get(), message);
      return outcome != control::ReceiveOutcome::kNothing;
    }));
    if (outcome != control::ReceiveOutcome::kMessage) return std::nullopt;
    return message;
  }
  void skip_all() {
    control::Received message;
    while (control::receive_message(socket_.get(), message) == control::ReceiveOutcome::kMessage) {
    }
  }
  std::optional<control::Welcome> greet(const control::Hello& hello = {}) {
    EXPECT_TRUE(send(control::encode(hello, 1)));
    const auto reply = receive();
    return reply ? reply->as<control::Welcome>() : std::nullopt;
  }

 private:
  OwnedFd socket_;
};

// A system daemon that lives until the end of the test, and must.
class SystemDaemon {
 public:
  explicit SystemDaemon(std::vector<std::string> options = {"--system"})
      : pid_(start_daemon(options, std::string(control::kNetworkName))) {}
  ~SystemDaemon() {
    EXPECT_TRUE(is_running(pid_)) << "the daemon died of the attack";
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  SystemDaemon(const SystemDaemon&) = delete;
  SystemDaemon& operator=(const SystemDaemon&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

inline void as(uid_t uid, const std::function<void()>& body) {
  Program program([&] {
    become(uid);
    body();
  });
  EXPECT_TRUE(program.succeeded());
}

}  // namespace rrdma::daemon
