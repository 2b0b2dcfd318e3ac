// Relay: receives for users that do not trust each other. The daemon keeps every socket of UDP port 4791 and
// forwards each datagram to the program that holds its slot, over a unix datagram socket
// (link/udp/envelope.h). Programs still send by themselves, from their own source ports.
//
//   network ──► slot sockets ──► relay thread ──► unix socket of the slot ──► program
//
// A separate thread, so that requests to the daemon do not delay packets. Users take turns, each with a
// bounded number of datagrams. The unread bytes of a user in its unix sockets are bounded; beyond that its
// datagrams are dropped. Segments that the kernel merged into one datagram are split by slot.
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

  // Forwards datagrams of the slot's sockets. Returns the program's end, or an errno. REQUIRES: the slot is
  // not relayed.
  [[nodiscard]] Result<OwnedFd, int> open(Slot slot, uid_t user, IpSockets sockets);
  // A slot that is not relayed is permitted. After the return, nothing of the slot reaches the program any
  // more.
  void close(Slot slot);
  [[nodiscard]] bool has(Slot slot) const { return lines_[slot] != nullptr; }

  struct Tally {
    std::atomic<std::uint64_t> datagrams{0};
    std::atomic<std::uint64_t> dropped_full{0};   // programs of the user do not read
    std::atomic<std::uint64_t> dropped_other{0};  // malformed, or for a slot without a holder
  };
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  static constexpr std::size_t kFlock = 16;

  struct User {
    OwnedFd epoll;              // of its slot sockets
    std::vector<Slot> slots;    // its slots
    std::uint64_t waiting = 0;  // upper bound of the bytes in its unix sockets
    std::uint32_t drops = 0;    // since there was room
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
  // Returns the number of bytes received.
  std::size_t relay_from(int socket);
  void pass_on(const mmsghdr& received);
  void deliver(Slot slot, link::Envelope envelope, Octets segments);
  [[nodiscard]] bool has_room(User& user, std::size_t octets);
  [[nodiscard]] std::uint64_t share_of(const User& user) const;
  void count_waiting(User& user);

  std::mutex mutex_;  // guards everything below except atomics
  std::atomic<unsigned> waiting_for_mutex_{0};
  std::atomic<bool> stopped_{false};
  std::array<std::unique_ptr<Line>, control::kSlotCount> lines_;
  std::map<uid_t, User> users_;
  std::uint64_t waiting_ = 0;  // of all users
  OwnedFd epoll_;              // holds the users' epolls and the signal
  OwnedFd signal_;
  Flock flock_;
  Tally tally_;
  std::thread thread_;  // starts with the first slot
};

}  // namespace rrdma::daemon
