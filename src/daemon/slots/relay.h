// Relay: the slot sockets of users who do not trust each other. The daemon keeps every socket of UDP port 4791 and
// passes each datagram on to the program that holds its slot, over a unix datagram socket (link/udp/envelope.h).
// Programs still send by themselves, from source ports of their own.
//
//   network ──► slot sockets ──► relay thread ──► unix socket of the slot ──► program
//
// One thread, so that requests to the daemon do not delay packets. Users take turns, each with a bounded number of
// datagrams; what one user leaves unread in its unix sockets is bounded, and beyond that its datagrams are dropped.
// Segments that the kernel merged into one datagram go each to its own slot.
//
// Threads: open() and close() from the daemon's thread.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/ip_sockets.h"
#include "base/octets.h"
#include "base/result.h"
#include "control/slot.h"
#include "link/udp/envelope.h"

namespace rrdma::daemon {

using control::Slot;

class Relay {
 public:
  Relay();
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Passes on what the sockets receive for the slot. The program's end of it, or an errno.
  // REQUIRES: the slot is not relayed.
  [[nodiscard]] Result<OwnedFd, int> open(Slot slot, uid_t user, IpSockets sockets);
  // A slot that is not relayed is no mistake. When this returns, nothing of the slot reaches the program any more.
  void close(Slot slot);
  [[nodiscard]] bool has(Slot slot) const { return lines_[slot] != nullptr; }

  struct Tally {
    std::atomic<std::uint64_t> datagrams{0};
    std::atomic<std::uint64_t> dropped_full{0};   // the program does not read, or its user's programs do not
    std::atomic<std::uint64_t> dropped_other{0};  // malformed, or for a slot without a holder
  };
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  static constexpr std::size_t kFlock = 16;

  struct User {
    OwnedFd epoll;              // of its slot sockets
    std::vector<Slot> slots;    // that it holds
    std::uint64_t waiting = 0;  // octets in its unix sockets, at most
    std::uint32_t drops = 0;    // since its waiting octets were counted last
  };
  struct Line {
    uid_t user = 0;
    IpSockets sockets;
    OwnedFd out;
  };
  struct alignas(cmsghdr) Control {
    std::array<std::uint8_t, link::kEnvelopeControlOctets> octets;
  };
  // The buffers of one receive call.
  struct Flock {
    Flock();
    std::unique_ptr<std::uint8_t[]> buffers;
    std::array<mmsghdr, kFlock> messages{};
    std::array<iovec, kFlock> pieces{};
    std::array<link::SenderAddress, kFlock> addresses{};
    std::array<Control, kFlock> controls{};
  };

  void run();
  void serve(User& user);
  // How many octets were received.
  std::size_t relay_from(int socket);
  void pass_on(const mmsghdr& received);
  void deliver(Slot slot, link::Envelope envelope, Octets segments);
  [[nodiscard]] bool has_room(User& user, std::size_t octets);
  [[nodiscard]] bool is_within_share(const User& user, std::size_t octets) const;
  void count_waiting(User& user);

  std::mutex mutex_;  // of all below, except where atomic
  std::atomic<unsigned> waiting_for_mutex_{0};
  std::atomic<bool> stopped_{false};
  std::array<std::unique_ptr<Line>, control::kSlotCount> lines_;
  std::map<uid_t, User> users_;
  std::uint64_t waiting_ = 0;  // of all users
  OwnedFd epoll_;              // of the users' epolls, and the signal
  OwnedFd signal_;
  Flock flock_;
  Tally tally_;
  std::thread thread_;  // begins with the first slot
};

}  // namespace rrdma::daemon
