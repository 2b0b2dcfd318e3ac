// DaemonClient: the requests of a process to rrdmad, and the events from it. Opening connects to the daemon
// and starts one if there is none. The daemon may die at any time: slots, sockets and traffic survive, and
// the client finds or starts the next daemon and registers again. Requests do that themselves;
// handle_events() does it in the background.
//
// Threads: requests from any thread. They block until the reply, for at most DaemonSettings::patience.
// handle_events() from one thread (the background thread of the NIC); it never blocks. Call it whenever
// event_fd() is readable: other programs' offers and the takeover after a daemon's death wait for it. After a
// fork, the child's copy refuses every request.
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
#include "base/result_try.h"
#include "control/client/daemon_session.h"
#include "control/messages.h"
#include "control/process_page.h"
#include "wire/gid.h"
#include "wire/numbers.h"

namespace rrdma::control {

// A socket is missing if the daemon has no network for that family (DaemonClient::network tells why). The
// sockets are receive-only and fully configured. QPNs come from DaemonClient::next_qpn.
struct GrantedSlot {
  Slot slot = 0;
  IpSockets sockets;
  // Instead of the sockets, where the daemon keeps them: it passes on here what they receive, of these
  // families.
  OwnedFd relay = {};
  std::uint8_t families = 0;
};

struct ListedProcess {
  control::ProcessEntry entry;
  OwnedFd page;  // for control::ProcessPageView::open; invalid if there is none
};

// Events from the daemon. Called from handle_events() without any lock of the client: requests are allowed,
// but they block.
class DaemonEvents {
 public:
  virtual ~DaemonEvents() = default;
  // Another program of this user passes descriptors. An offer may arrive twice if a daemon died between
  // delivering and confirming it.
  virtual void handle_channel_offered(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) = 0;
  // The program that held the slot is gone; its token distinguishes it from a later holder.
  virtual void handle_peer_gone(const control::PeerGone& gone) = 0;
  // A datagram for one of our QPs that the kernel merged into another program's slot.
  virtual void handle_frame_forwarded(const control::FrameFields& frame) = 0;
  // The network came up after the slot was granted without it.
  virtual void handle_sockets_arrived(GrantedSlot slot) { (void)slot; }
  // Another daemon serves us now. Repeat look-ups to be notified when those peers go away. The slots in
  // `lost` belong to other programs.
  virtual void handle_daemon_changed(std::span<const Slot> lost) { (void)lost; }
  // An event of a subsystem that this class does not know (the connection manager).
  virtual void handle_other(control::Received& message) { (void)message; }
};

class DaemonClient {
 public:
  // Connects to the daemon of this network namespace, starting it if necessary. Programs get a process page.
  [[nodiscard]] static Result<std::unique_ptr<DaemonClient>, Problem> connect_or_start(
      const DaemonSettings& settings);
  ~DaemonClient();
  DaemonClient(const DaemonClient&) = delete;
  DaemonClient& operator=(const DaemonClient&) = delete;

  // The daemon's network capabilities, and the reasons for missing ones.
  [[nodiscard]] control::NetworkState network();
  // The last Welcome: pid and uid of the daemon, whether it is a system daemon.
  [[nodiscard]] control::Welcome welcome();
  // Identifies this program to its peers.
  [[nodiscard]] std::uint64_t token() const { return token_; }
  // REQUIRES: not a tool.
  [[nodiscard]] control::ProcessPage& page() { return *page_; }

  [[nodiscard]] Result<GrantedSlot, Problem> request_slot();
  // REQUIRES: the caller has closed the sockets.
  [[nodiscard]] Result<void, Problem> release_slot(Slot slot);
  // The next QPN of a slot that we hold; skips the multicast QPN. The sequence wraps around: the caller skips
  // QPNs that are in use. Never blocks; any thread.
  [[nodiscard]] wire::Qpn next_qpn(Slot slot);

  [[nodiscard]] Result<control::SlotOwner, Problem> look_up_slot(Slot slot);
  // REQUIRES: opaque.size() <= kOpaqueMax, fds.size() <= kChannelFdsMax. ECONNRESET: the daemon died
  // meanwhile; the offer may or may not have been delivered.
  [[nodiscard]] Result<void, Problem> offer_channel(Slot from_slot, Slot to_slot, Octets opaque,
                                                    std::span<const int> fds);
  // Best effort, like the network. Never waits.
  void forward_frame(const control::FrameFields& frame);
  [[nodiscard]] Result<void, Problem> join_group(Slot slot, std::uint32_t interface_index,
                                                 const wire::Gid& group);
  [[nodiscard]] Result<void, Problem> leave_group(Slot slot, std::uint32_t interface_index,
                                                  const wire::Gid& group);
  [[nodiscard]] Result<void, Problem> update_process(std::uint32_t links, std::string devices);

  [[nodiscard]] Result<std::vector<ListedProcess>, Problem> list_processes();
  // The traffic of devices, for programs that this user may see.
  [[nodiscard]] Result<std::vector<control::DeviceEntry>, Problem> list_devices();
  [[nodiscard]] Result<control::Status, Problem> status();

  // Any request of any subsystem. If the daemon dies before it answers, kOnce fails with ECONNRESET;
  // otherwise the request is repeated to the next daemon.
  enum class Repeat : std::uint8_t { kOnce, kAgain };
  template <typename Reply, typename Request>
  [[nodiscard]] Result<Reply, Problem> request(const Request& message, Repeat repeat = Repeat::kAgain,
                                               std::span<const int> fds = {},
                                               std::vector<OwnedFd>* reply_fds = nullptr) {
    auto replies = exchange(control::encode(message, 0), fds, repeat, false);
    RRDMA_TRY(replies);
    auto reply = replies->back().template as<Reply>();
    if (!reply) return problem(EPROTO, "the RRDMA daemon answered with something else than was asked.");
    if (reply_fds != nullptr) *reply_fds = std::move(replies->back().fds);
    return std::move(*reply);
  }

  // Constant for the lifetime of this object; poll it for reading.
  [[nodiscard]] int event_fd() const { return epoll_.get(); }
  void handle_events(DaemonEvents& events);

 private:
  DaemonClient(const DaemonSettings& settings, std::unique_ptr<control::ProcessPage> page,
               std::uint64_t token);

  // The replies to a request: one, or with `many` all until Done. A Failed reply becomes a Problem.
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
  OwnedFd epoll_;   // event_fd(): the socket unless a request waits on it, the timer, the signal
  OwnedFd timer_;   // the next attempt of the session
  OwnedFd signal_;  // events are queued for handle_events()
  int watched_ = -1;
  std::uint32_t last_serial_ = 1;
  std::uint64_t seen_generation_ = 1;
  std::vector<control::Received> events_;
  std::vector<Slot> lost_slots_;
  bool daemon_changed_ = false;
};

}  // namespace rrdma::control
