// DaemonClient: what a process asks of rrdmad, and what rrdmad tells it. Opening connects to the daemon,
// and starts it where there is none. The daemon may die at any time: slots, sockets and traffic stay,
// and the client finds or starts the next daemon and registers again (requests do so by themselves,
// handle_events() does it in the background).
//
// Threads: requests from any thread; they block until the reply, for DaemonSettings::patience at most.
// handle_events() from one thread (the background thread of the NIC), never blocks, and is to be called
// whenever event_fd() is readable: offers of other programs wait for it, and so does the takeover after
// a daemon's death. After a fork the child's copy refuses everything.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/ip_sockets.h"
#include "base/problem.h"
#include "base/result.h"
#include "control/client/daemon_session.h"
#include "control/messages.h"
#include "control/process_page.h"
#include "wire/gid.h"
#include "wire/numbers.h"

namespace rrdma::control {

// The sockets are missing where the daemon has no network for that family (DaemonClient::network says
// why). They only receive; options are set. QPNs come from DaemonClient::next_qpn.
struct GrantedSlot {
  Slot slot = 0;
  IpSockets sockets;
};

struct ListedProcess {
  control::ProcessEntry entry;
  OwnedFd page;  // for control::ProcessPageView::open; invalid where there is none
};

// What the daemon tells by itself. Called from handle_events(), without any lock of the client: requests
// may be made, but they block.
class DaemonEvents {
 public:
  virtual ~DaemonEvents() = default;
  // Another program of this user passes descriptors. The same offer may come twice when a daemon died
  // between delivering and confirming it.
  virtual void handle_channel_offered(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) = 0;
  // The program that held the slot is gone; `token` tells it from a later holder.
  virtual void handle_peer_gone(Slot slot, std::uint64_t token) = 0;
  // A datagram for one of our QPs that the kernel had merged into another program's slot.
  virtual void handle_frame_forwarded(const control::FrameFields& frame) = 0;
  // The network came up after the slot was granted without it.
  virtual void handle_sockets_arrived(GrantedSlot slot) { (void)slot; }
  // Another daemon serves us now. Look-ups must be repeated to hear of peers that are gone; slots in
  // `lost` belong to somebody else.
  virtual void handle_daemon_changed(std::span<const Slot> lost) { (void)lost; }
  // An event of a subsystem that this class knows nothing about (the connection manager).
  virtual void handle_other(control::Received& message) { (void)message; }
};

class DaemonClient {
 public:
  // Connects to the daemon of this network namespace, starts it if need be. Programs get a process page.
  [[nodiscard]] static Result<std::unique_ptr<DaemonClient>, Problem> connect_or_start(
      const DaemonSettings& settings);
  ~DaemonClient();
  DaemonClient(const DaemonClient&) = delete;
  DaemonClient& operator=(const DaemonClient&) = delete;

  // What the daemon can do on the network, and why not where it cannot.
  [[nodiscard]] control::NetworkState network();
  // The last Welcome: pid and uid of the daemon, whether it is a system daemon.
  [[nodiscard]] control::Welcome welcome();
  // Names this program to its peers.
  [[nodiscard]] std::uint64_t token() const { return token_; }
  // REQUIRES: not a tool.
  [[nodiscard]] control::ProcessPage& page() { return *page_; }

  [[nodiscard]] Result<GrantedSlot, Problem> request_slot();
  // The caller has closed the sockets.
  [[nodiscard]] Result<void, Problem> release_slot(Slot slot);
  // The next QPN of a slot that we hold; skips the number of multicast. It goes round after all of them: the
  // caller skips QPNs that are in use. Never blocks, any thread.
  [[nodiscard]] wire::Qpn next_qpn(Slot slot);

  [[nodiscard]] Result<control::SlotOwner, Problem> look_up_slot(Slot slot);
  // REQUIRES: opaque.size() <= kOpaqueMax, fds.size() <= kChannelFdsMax. ECONNRESET: the daemon ended
  // meanwhile, the offer may have been delivered or not.
  [[nodiscard]] Result<void, Problem> offer_channel(Slot from_slot, Slot to_slot, Octets opaque,
                                                    std::span<const int> fds);
  // Like the network: gone, or it arrives. Does not wait for anything.
  void forward_frame(const control::FrameFields& frame);
  [[nodiscard]] Result<void, Problem> join_group(Slot slot, std::uint32_t interface_index,
                                                 const wire::Gid& group);
  [[nodiscard]] Result<void, Problem> leave_group(Slot slot, std::uint32_t interface_index,
                                                  const wire::Gid& group);
  [[nodiscard]] Result<void, Problem> update_process(std::uint32_t links, std::string devices);

  [[nodiscard]] Result<std::vector<ListedProcess>, Problem> list_processes();
  // What devices have carried, for programs that this user may see.
  [[nodiscard]] Result<std::vector<control::DeviceEntry>, Problem> list_devices();
  [[nodiscard]] Result<control::Status, Problem> status();

  // Any request of any subsystem. kOnce: where the daemon dies before it answers, ECONNRESET; else the
  // request is made again to the next one.
  enum class Repeat : std::uint8_t { kOnce, kAgain };
  template <typename Reply, typename Request>
  [[nodiscard]] Result<Reply, Problem> request(const Request& message, Repeat repeat = Repeat::kAgain,
                                               std::span<const int> fds = {},
                                               std::vector<OwnedFd>* reply_fds = nullptr) {
    auto replies = exchange(control::encode(message, 0), fds, repeat, false);
    if (!replies) return Failure{replies.error()};
    auto reply = replies->back().template as<Reply>();
    if (!reply) return problem(EPROTO, "the RRDMA daemon answered with something else than was asked.");
    if (reply_fds != nullptr) *reply_fds = std::move(replies->back().fds);
    return std::move(*reply);
  }

  // One descriptor for as long as this lives; poll it for reading.
  [[nodiscard]] int event_fd() const { return epoll_.get(); }
  void handle_events(DaemonEvents& events);

 private:
  DaemonClient(const DaemonSettings& settings, std::unique_ptr<control::ProcessPage> page,
               std::uint64_t token);

  // The replies to a request: one, or (many) all until Done. A Failed reply is a Problem.
  [[nodiscard]] Result<std::vector<control::Received>, Problem> exchange(std::vector<std::uint8_t> datagram,
                                                                         std::span<const int> fds,
                                                                         Repeat repeat, bool many);
  [[nodiscard]] Result<void, Problem> make_ready(Instant deadline);
  enum class Wait : std::uint8_t { kReplied, kLost, kTimedOut };
  [[nodiscard]] Wait await_replies(std::uint32_t serial, bool many, Instant deadline,
                                   std::vector<control::Received>& replies);
  [[nodiscard]] Wait send_all(Octets datagram, std::span<const int> fds, Instant deadline, int& error);
  [[nodiscard]] bool is_forked() const;
  void keep_event(control::Received message);
  void notice_generation();
  void watch_socket();
  void unwatch_socket();
  void quiet_events();
  void arm_timer();
  void signal_events();
  static void deliver(DaemonEvents& events, control::Received& message);

  const DaemonSettings settings_;
  const pid_t owner_;
  const std::uint64_t token_;
  const std::unique_ptr<control::ProcessPage> page_;

  std::mutex mutex_;
  DaemonSession session_;
  OwnedFd epoll_;   // event_fd(): the socket while nobody waits on it, the timer, the signal
  OwnedFd timer_;   // the session's next attempt
  OwnedFd signal_;  // events were kept for handle_events()
  int watched_ = -1;
  std::uint32_t last_serial_ = 1;
  std::uint64_t seen_generation_ = 1;
  std::vector<control::Received> events_;
  std::vector<Slot> lost_slots_;
  bool daemon_changed_ = false;
};

}  // namespace rrdma::control
