// DirectPeer: the initiator's side of direct access to one other process. It looks up key and QP in the
// target's table and moves the bytes with process_vm_writev / process_vm_readv. The kernel checks permission
// (same user, ptrace access). Memory that lies in a file is mapped here and copied without the kernel. Memory
// that no CPU can touch is copied by its kind (far_regions.h). In any doubt it refuses: packets carry the
// request, and the target's QP finds the right error.
//
// Programs spin on the last byte of a WRITE, so it has a remote vector of its own, which the kernel fills
// after the others. Long copies go in pieces, and the rows are checked again before each. So the owner that
// retires a row waits for one piece at most.
//
// Threads: one at a time (the owner of the lane).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "link/shm/direct_table.h"
#include "link/shm/far_regions.h"
#include "link/shm/mapped_regions.h"
#include "objects/direct_access.h"

namespace rrdma::link {

enum class DirectOutcome : std::uint8_t {
  kDone,
  kMapped,     // done, without the kernel
  kFar,        // done, by the kind of the memory
  kGoesOn,     // a copy by the kind of the memory is not done yet
  kNotListed,  // the table does not allow it, or not at the moment
  kFault,      // a page is missing
  kRefused,    // the kernel forbids access; permanent
};

// The message by which a process enables direct access. The nonce lies in its own memory: a peer that can
// read it there has found the right process.
struct DirectIntroduction {
  static constexpr std::size_t kNonceOctets = 16;
  std::uint64_t nonce_address = 0;
  std::array<std::uint8_t, kNonceOctets> nonce{};
  std::uint32_t peer = 0;  // the number of the receiver at the sender
  std::uint32_t reserved = 0;
};

class DirectPeer {
 public:
  // `pid` as reported by the kernel (SCM_CREDENTIALS, SO_PEERCRED); 0 if it has none in this namespace. The
  // target reads `in_use` before it releases memory.
  [[nodiscard]] static Result<DirectPeer, ShmError> open(const OwnedFd& table, pid_t pid,
                                                         const DirectIntroduction& introduction,
                                                         std::atomic<std::uint64_t>& in_use,
                                                         objects::FarCopier* copier = nullptr);

  DirectOutcome write(const objects::DirectTarget& target, std::span<const objects::PayloadSpan> from);
  DirectOutcome read(const objects::DirectTarget& target, std::span<const objects::MutableSpan> to);
  // Only for mapped memory: the kernel offers no atomic operation on another process's memory.
  DirectOutcome atomic(const objects::DirectTarget& target, objects::AtomicCall& call);
  // See DirectAccess.
  [[nodiscard]] bool reaches_far(const objects::DirectTarget& target);
  // Looks whether the copy that goes on has ended. The target waits for it before it releases memory, so call
  // it from time to time, also if the QP asks no more.
  void review() {
    if (running_) review_copy();
  }

 private:
  enum class Way : std::uint8_t { kWrite, kRead };
  struct Place {
    std::uint64_t address;  // in the target
    std::uint8_t* mapped;   // here; null: not mapped
    FarRegions::Place far;  // if no CPU can touch it
  };
  DirectPeer(DirectTableView view, pid_t pid, const DirectIntroduction& introduction,
             std::atomic<std::uint64_t>& in_use, objects::FarCopier* copier)
      : view_(std::move(view)),
        pid_(pid),
        introduction_(introduction),
        in_use_(&in_use),
        mapped_(pid),
        far_(pid, copier) {}

  // The rows that the table lists for a target.
  struct Rows {
    Found<DirectQp> qp;
    Found<DirectKey> key;
    [[nodiscard]] bool hold() const;
  };
  // Sets rows_. False if the table has none. REQUIRES: the caller is announced as their user.
  bool find_rows(const objects::DirectTarget& target);
  // The place of the target according to rows_; empty: not allowed. REQUIRES: as above.
  [[nodiscard]] std::optional<Place> look_up(const objects::DirectTarget& target, std::uint64_t length,
                                             std::uint32_t need);
  template <typename Act>
  DirectOutcome announced(Act act);
  DirectOutcome move(Way way, const objects::DirectTarget& target, std::span<iovec> local,
                     std::uint64_t length);
  DirectOutcome move_listed(Way way, const objects::DirectTarget& target, std::span<iovec> local,
                            std::uint64_t length);
  // A copy that takes long belongs to it.
  struct Request {
    wire::Qpn qpn;  // of the initiator
    std::uint64_t address;
    std::uint64_t length;
    friend bool operator==(const Request&, const Request&) = default;
  };
  DirectOutcome move_far(Way way, const Request& request, std::span<const iovec> local,
                         const FarRegions::Place& to);
  void review_copy();
  // The end of a copy that went on; empty: it goes on, or the request has none.
  [[nodiscard]] std::optional<DirectOutcome> take_ended(const Request& request, bool resumes);
  static DirectOutcome move_small(Way way, const iovec& local, std::uint8_t* mapped);
  DirectOutcome move_piece(Way way, std::span<const iovec> local, const Place& to, std::size_t length,
                           bool last) const;
  [[nodiscard]] bool is_the_same_process();
  [[nodiscard]] bool has_nonce() const;

  DirectTableView view_;
  pid_t pid_;
  DirectIntroduction introduction_;
  std::atomic<std::uint64_t>* in_use_;
  MappedRegions mapped_;
  FarRegions far_;
  std::optional<Rows> rows_;  // of the latest target
  // Copies that took long. One at a time: its end ends the announcement to the owner of the memory.
  struct Running {
    Request request;  // QPN 0: nobody asks for it any more
    objects::FarMapping* mapping;
  };
  struct Ended {
    Request request;
    DirectOutcome outcome;
  };
  std::optional<Running> running_;
  std::vector<Ended> ended_;
  std::int64_t verified_s_ = 0;
  bool refused_ = false;
};

}  // namespace rrdma::link
