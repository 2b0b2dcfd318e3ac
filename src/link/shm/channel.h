// ShmChannel: the two rings between two processes of one user on one host, and the socket by which they wake
// each other. One side creates it and passes two descriptors to the other through the daemon.
//
// The memory is a memfd that can neither shrink nor grow, so the peer cannot remove pages that we use. The
// doorbell is a SEQPACKET socket pair, not an eventfd. The peer shares every file status flag of a descriptor
// that it received: it could clear O_NONBLOCK of an eventfd, fill it, and block us in write(). A socket also
// hangs up when the peer dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/owned_fd.h"
#include "base/result.h"
#include "link/shm/layout.h"

namespace rrdma::link {

enum class ShmProblem : std::uint8_t {
  kNone,
  kRingSize,      // not a power of two between kRingOctetsMin and kRingOctetsMax
  kMemory,        // the memfd could not be created, sealed or mapped
  kDoorbell,      // the socket pair could not be created, or the descriptor is not one
  kNotSealed,     // the memory could shrink
  kNotMemory,     // not a memfd of plain pages
  kLayout,        // magic, version or size differ
  kNotReachable,  // direct access: another PID namespace, ptrace forbidden, or a different process
};
std::string_view describe(ShmProblem problem);

struct ShmError {
  ShmProblem problem = ShmProblem::kNone;
  int error = 0;  // errno, if a system call failed
};

class ShmChannel {
 public:
  static constexpr std::uint32_t kRingOctets = 1024 * 1024;

  struct Pair;
  [[nodiscard]] static Result<Pair, ShmError> create(std::uint32_t ring_octets = kRingOctets);
  // Trusts nothing that the descriptors contain.
  [[nodiscard]] static Result<ShmChannel, ShmError> open(OwnedFd memory, OwnedFd doorbell);

  ShmChannel(ShmChannel&& other) noexcept;
  ShmChannel& operator=(ShmChannel&& other) noexcept;
  ~ShmChannel();

  [[nodiscard]] std::uint32_t ring_octets() const { return ring_octets_; }
  [[nodiscard]] unsigned own_direction() const { return direction_; }
  [[nodiscard]] std::uint64_t nonce(unsigned direction) const { return nonce_[direction]; }
  [[nodiscard]] DirectionControl& control(unsigned direction) const;
  // The answer rows of the side that sends in this direction.
  [[nodiscard]] AnswerRow* answers(unsigned direction) const;
  [[nodiscard]] std::uint8_t* ring(unsigned direction) const {
    return base_ + ring_offset(direction, ring_octets_);
  }
  [[nodiscard]] int doorbell() const { return doorbell_.get(); }

  // Wakes the peer. Never blocks. False if the peer hung up.
  bool ring_doorbell() const;

 private:
  ShmChannel(std::uint8_t* base, std::uint32_t ring_octets, unsigned direction, OwnedFd doorbell);
  void unmap();

  std::uint8_t* base_ = nullptr;
  std::uint32_t ring_octets_ = 0;  // our own copies: the shared header is read once
  unsigned direction_ = 0;
  std::uint64_t nonce_[2] = {};
  OwnedFd doorbell_;
};

struct ShmChannel::Pair {
  ShmChannel own;
  OwnedFd peer_memory;  // both for open() in the other process
  OwnedFd peer_doorbell;
};

}  // namespace rrdma::link
