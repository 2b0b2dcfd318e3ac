// Counters of a UdpLink. One list names them for code and tools.
//
//   sends                  messages given to the kernel; a train is one
//   trains_sent/received   segmented sends; receives that the kernel had merged
//   uring_calls            the part of send_calls that used io_uring
//   waited_for_room        times that the socket had no room
//   dropped_*              frames that could not be sent
//   refused_*              received packets that were dropped
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rrdma::link {

// clang-format off
#define RRDMA_UDP_COUNTERS(X)                                                                               \
  X(packets_sent) X(octets_sent) X(sends) X(trains_sent) X(send_calls) X(uring_calls) X(waited_for_room)    \
  X(trains_refused)                                                                                         \
  X(dropped_unreadable) X(dropped_too_long) X(dropped_unreachable) X(dropped_forbidden)                     \
  X(dropped_no_source) X(dropped_no_socket) X(dropped_other)                                                \
  X(packets_received) X(octets_received) X(receives) X(trains_received) X(receive_calls)                    \
  X(icrc_solved)                                                                                            \
  X(refused_icrc) X(refused_identification) X(refused_short) X(refused_truncated) X(refused_origin)         \
  X(refused_opcode) X(refused_version) X(refused_pad) X(refused_payload_length)                             \
  X(receive_errors)
// clang-format on

struct UdpCounters {
#define RRDMA_X(name) std::uint64_t name = 0;
  RRDMA_UDP_COUNTERS(RRDMA_X)
#undef RRDMA_X
};

struct UdpCounterName {
  std::string_view name;
  std::uint64_t UdpCounters::*member;
};

inline constexpr std::array kUdpCounterNames = {
#define RRDMA_X(name) UdpCounterName{#name, &UdpCounters::name},
    RRDMA_UDP_COUNTERS(RRDMA_X)
#undef RRDMA_X
};

}  // namespace rrdma::link
