// DirectAccess: one-sided operations that the initiator performs itself, without the target's CPU, like a
// NIC's DMA. It is optional. False means nothing is known: the caller sends the request as packets, and data
// already placed is placed again with the same bytes.
//
// The caller preserves RC order: it calls this only while no earlier request of the QP waits for an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "objects/atomic_call.h"
#include "objects/frame.h"
#include "objects/path.h"
#include "wire/numbers.h"

namespace rrdma::objects {

// The target memory, and the connection to reach it through.
struct DirectTarget {
  wire::Qpn local;   // the initiator's QP
  wire::Qpn remote;  // the target's QP
  wire::RKey rkey;
  std::uint64_t address = 0;
  bool from_far = false;  // the CPU cannot touch some of the initiator's spans
  bool resumes = false;   // the same request as before, which take_unfinished() was true for
};

class DirectAccess {
 public:
  virtual ~DirectAccess() = default;
  // True: all bytes are placed at the target, the last ones last. At most kSgeMax + 1 spans.
  [[nodiscard]] virtual bool direct_write(const Path& path, const DirectTarget& target,
                                          std::span<const PayloadSpan> from) = 0;
  // True: all bytes were read.
  [[nodiscard]] virtual bool direct_read(const Path& path, const DirectTarget& target,
                                         std::span<const MutableSpan> to) = 0;
  // True: the operation was executed once, and `call.original` is the value found. False: it was not
  // executed. Ignores the target in `call`.
  [[nodiscard]] virtual bool direct_atomic(const Path& path, const DirectTarget& target,
                                           AtomicCall& call) = 0;
  // After false: the request has begun, or waits for another copy. Call again with the same arguments, and
  // `resumes`, while others have their turn.
  [[nodiscard]] bool take_unfinished() { return std::exchange(unfinished_, false); }
  // True if the target is memory that the CPU cannot touch, and this process reaches it. Copies there are
  // fast in long pieces and slow in short ones, and packets are slower than waiting for direct access.
  [[nodiscard]] virtual bool reaches_far(const Path&, const DirectTarget&) { return false; }
  // False: reaches_far() is false for every target so far.
  [[nodiscard]] bool has_met_far() const { return met_far_; }

 protected:
  bool met_far_ = false;
  bool unfinished_ = false;
};

}  // namespace rrdma::objects
