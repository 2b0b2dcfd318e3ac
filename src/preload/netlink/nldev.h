// The part of the kernel's RDMA netlink protocol (NETLINK_RDMA, client NLDEV) that describes devices: the
// questions of the `rdma` tool and of libibverbs, and the answers for our devices. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/octets.h"
#include "preload/files/device_view.h"

namespace rrdma::netlink {

struct Question {
  std::uint16_t type = 0;  // client and command
  std::uint16_t flags = 0;
  std::uint32_t sequence = 0;
  std::uint32_t sender = 0;  // the port id in the answers
  std::optional<std::uint32_t> device;
  std::optional<std::uint32_t> port;

  [[nodiscard]] bool is_dump() const;
};

// The first message of a datagram. Nothing: it is no netlink message.
[[nodiscard]] std::optional<Question> parse_question(Octets datagram);

struct OwnDevices {
  std::span<const files::DeviceView> views;
  std::uint32_t first_index = 0;  // the kernel's devices have smaller ones

  [[nodiscard]] bool has(std::uint32_t index) const {
    return index >= first_index && index - first_index < views.size();
  }
};

// A message each.
using Messages = std::vector<std::vector<std::uint8_t>>;

// Whether our devices are a part of the answer, or all of it.
[[nodiscard]] bool concerns(const Question& question, const OwnDevices& own);
// The answer for our devices, without its end. REQUIRES: concerns(question, own).
[[nodiscard]] Messages describe(const Question& question, const OwnDevices& own);
// The end of an answer: of a list, or an acknowledgement if one was asked for. `error`: 0 or an errno.
[[nodiscard]] Messages end_of_answer(const Question& question, int error);

}  // namespace rrdma::netlink
