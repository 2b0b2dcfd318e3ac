// DirectAccess: one-sided operations that the initiator does itself, without the target's CPU, as a
// NIC's DMA would. An offer, never an obligation: false means that nothing may be concluded, the caller
// sends the request as packets, and what was placed already is placed again with the same octets.
//
// The caller keeps the order of RC: it asks only while no earlier request of the QP waits for an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "objects/atomic_call.h"
#include "objects/frame.h"
#include "objects/path.h"
#include "wire/numbers.h"

namespace rrdma::objects {

// Which memory, through which connection.
struct DirectTarget {
  wire::Qpn local;   // the initiator's QP
  wire::Qpn remote;  // the target's
  wire::RKey rkey;
  std::uint64_t address = 0;
};

class DirectAccess {
 public:
  virtual ~DirectAccess() = default;
  // True: all octets are placed at the target, the last ones last. Spans are at most kSgeMax + 1.
  [[nodiscard]] virtual bool direct_write(const Path& path, const DirectTarget& target,
                                          std::span<const PayloadSpan> from) = 0;
  // True: all octets were read.
  [[nodiscard]] virtual bool direct_read(const Path& path, const DirectTarget& target,
                                         std::span<const MutableSpan> to) = 0;
  // True: it was done, once, and `call.original` is what was found. False: it was not. The target in `call` is not
  // looked at.
  [[nodiscard]] virtual bool direct_atomic(const Path& path, const DirectTarget& target,
                                           AtomicCall& call) = 0;
};

}  // namespace rrdma::objects
