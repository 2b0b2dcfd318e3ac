// Message and Receive: what the oracle knows about one posted request. Messages live until their world ends.
// Their slots go back to the arenas once nothing can touch them any more.
#pragma once

#include <cstdint>

#include "base/instant.h"
#include "objects/work_queue.h"
#include "sim/arena.h"
#include "sim/atomic_history.h"
#include "sim/plan.h"

namespace rrdma::sim {

class Endpoint;

struct Message {
  std::uint64_t id = 0;  // also its wr_id
  objects::SendOpcode opcode = objects::SendOpcode::kSend;
  std::uint8_t flags = 0;
  std::uint32_t length = 0;
  std::uint32_t immediate = 0;
  Endpoint* from = nullptr;
  Instant posted;
  bool signaled = false;
  bool takes_receive = false;
  bool delivered = false;  // its receive completion was seen and was correct
  bool completed = false;
  bool succeeded = false;
  Instant completed_at;

  // Local side: the data that it carries, or the place for its answer.
  Slot* local = nullptr;
  Content carried;           // SEND, WRITE, ATOMIC WRITE
  Content answer;            // READ, ATOMIC (which only uses the layout)
  bool keeps_local = false;  // the next message owns the slot
  // Remote side.
  Slot* target = nullptr;
  Content target_content;           // what must be there after completion; length 0: unchanged
  bool keeps_target = false;        // another object owns the slot
  bool target_overwritten = false;  // by the next message, perhaps before this one is seen to complete

  std::uint32_t word = 0;  // ATOMIC
  AtomicCall call;

  Provocation provocation = Provocation::kNone;
  objects::Status expected = objects::Status::kSuccess;
  // An error of its own that the sender may meet before it learns of the receiver's.
  objects::Status first_expected = objects::Status::kSuccess;
  bool through_window = false;  // uses the peer's memory window
};

struct Receive {
  std::uint64_t id = 0;
  Slot* slot = nullptr;
  Layout layout;
  std::uint32_t room = 0;
  bool bad_key = false;
};

inline constexpr std::uint64_t kReceiveIdBit = std::uint64_t{1} << 62;

}  // namespace rrdma::sim
