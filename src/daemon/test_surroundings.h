// The environment of the daemon's tests: runs test code in its own process and network namespace as an
// unprivileged user, with programs (processes) around it. It touches nothing outside the namespace.
// Everything ends with the test code: the daemons that it started by their pid.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "control/client/daemon_client.h"

namespace rrdma::daemon {

inline constexpr uid_t kNobody = 65534;

enum class Privilege : std::uint8_t {
  kNone,  // as nobody if the tests run as root, else as the current user in a user namespace
  kRoot,  // needs real root; skipped otherwise
};

// Runs the body; its failed expectations fail the calling test.
void in_own_network(const std::function<void()>& body, Privilege privilege = Privilege::kNone);

// Ends the process of the test, which is skipped. REQUIRES: called in the body itself, before any daemon
// runs.
[[noreturn]] void skip_here(const std::string& why);

// A process that runs `body` and exits with 0 if no expectation failed in it.
class Program {
 public:
  explicit Program(const std::function<void()>& body);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill();
  // True if it exited by itself without a failed expectation.
  [[nodiscard]] bool succeeded();

 private:
  pid_t pid_;
};

// A pipe by which processes of a test wait for each other and pass small values.
class Baton {
 public:
  Baton();
  void pass(std::uint64_t value = 0);
  // Fails the test if no value comes within ten seconds.
  std::uint64_t take();
  // Readable once a value was passed.
  [[nodiscard]] int reader() const { return read_.get(); }

 private:
  OwnedFd read_;
  OwnedFd write_;
};

[[nodiscard]] bool eventually(const std::function<bool()>& condition, int timeout_ms = 5000);
[[nodiscard]] bool is_running(pid_t pid);
// The pids of rrdmad processes in this network namespace.
[[nodiscard]] std::vector<pid_t> daemons_here();

// Becomes another user. REQUIRES: root.
void become(uid_t uid);

// Starts rrdmad with arguments and returns its pid once it answers on the name (empty: this user's).
pid_t start_daemon(const std::vector<std::string>& arguments, const std::string& name = {});

// Opens a client; on failure, fails the test with the explanation.
std::unique_ptr<control::DaemonClient> open_client(const control::DaemonSettings& settings = {});

// Sends a datagram of 16 bytes whose BTH.DestQP is `qpn` to port 4791 of the loopback address.
void send_to_qpn(int family, std::uint32_t qpn, std::uint8_t mark = 0);
// The marks of the datagrams that wait on the socket.
std::vector<std::uint8_t> marks_of(const OwnedFd& socket);
// Waits for `count` datagrams that the daemon relays (daemon/slots/relay.h); returns their marks.
std::vector<std::uint8_t> marks_relayed(const control::GrantedSlot& slot, std::size_t count);

// The events that a client received.
struct RecordedEvents : control::DaemonEvents {
  struct Offer {
    control::ChannelOffered offer;
    std::vector<OwnedFd> fds;
  };
  std::vector<Offer> offers;
  std::vector<control::Slot> gone;
  control::PeerGone last_gone;
  std::vector<control::FrameFields> frames;
  std::vector<control::GrantedSlot> arrived;
  std::vector<control::Slot> lost;
  int daemons = 0;

  void handle_channel_offered(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) override {
    offers.push_back({offer, std::move(fds)});
  }
  void handle_peer_gone(const control::PeerGone& peer) override {
    gone.push_back(peer.slot);
    last_gone = peer;
  }
  void handle_frame_forwarded(const control::FrameFields& frame) override { frames.push_back(frame); }
  void handle_sockets_arrived(control::GrantedSlot slot) override { arrived.push_back(std::move(slot)); }
  void handle_daemon_changed(std::span<const control::Slot> slots) override {
    ++daemons;
    lost.insert(lost.end(), slots.begin(), slots.end());
  }
};

// Handles events until the condition holds; false after the timeout.
[[nodiscard]] bool handle_until(control::DaemonClient& client, RecordedEvents& events,
                                const std::function<bool()>& condition, int timeout_ms = 5000);

}  // namespace rrdma::daemon
