// Reads the work requests of a ring into the engine's form. Pure: a slot was copied, and its content is
// hostile.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "kernel/rxe_layout.h"
#include "objects/memory.h"
#include "objects/work_queue.h"
#include "transport/engine.h"
#include "wire/gid.h"

namespace rrdma::kernel {

inline constexpr std::uint32_t kRegisterOpcode = 0x20;  // IB_WR_REG_MR, of kernel users only
inline constexpr std::size_t kSlotOctetsMax = 2048;     // a send request with kInlineMax bytes

using SlotCopy = std::array<std::uint8_t, kSlotOctetsMax>;

// A parsed send request. `request.list` refers to `list`, or to inline data in the slot.
struct ParsedSend {
  transport::SendRequest request{};
  std::array<objects::Sge, objects::kSgeMax> list{};
};

struct ParsedReceive {
  std::uint64_t wr_id = 0;
  std::uint32_t count = 0;
  std::array<objects::Sge, objects::kSgeMax> list{};
};

// The limits of the queue, and the key that stands for grants of kernel memory (0: a program's queue).
struct QueueLimits {
  std::uint32_t sges = 1;
  std::uint32_t inline_octets = 0;
  std::uint32_t grant_key = 0;
};

// False: the request is malformed. For a datagram the caller sets the address handle.
[[nodiscard]] bool parse_send(SlotCopy& slot, bool datagram, const QueueLimits& limits, ParsedSend& to);
// A malformed request gets a list that no access check lets pass: it fails when a message needs it.
void parse_receive(SlotCopy& slot, const QueueLimits& limits, ParsedReceive& to);

// Where a datagram goes.
struct DatagramRoute {
  wire::Gid local, remote;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0, traffic_class = 0;
  friend auto operator<=>(const DatagramRoute&, const DatagramRoute&) = default;
};
[[nodiscard]] DatagramRoute route_of(const RxeAddress& address);

}  // namespace rrdma::kernel
