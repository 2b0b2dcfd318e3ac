// The UDP source port of a RoCE v2 flow: entropy by which switches spread flows over paths. It lies in
// 0xc000..0xffff and is constant for a QP. It is derived as in the Linux kernel, so that both ends of a
// connection compute the same port and captures of both look alike.
#pragma once

#include <cstdint>

#include "wire/numbers.h"

namespace rrdma::wire {

inline constexpr std::uint16_t kSourcePortMin = 0xc000;

// Folds the 20 bits of a flow label into the 14 free bits of the port.
[[nodiscard]] constexpr std::uint16_t source_port_of_flow_label(std::uint32_t flow_label) {
  const std::uint32_t folded = (flow_label & 0x3fff) ^ ((flow_label & 0xfc000) >> 14);
  return static_cast<std::uint16_t>(kSourcePortMin | folded);
}

// The default flow label of a connection: the same at both ends.
[[nodiscard]] constexpr std::uint32_t flow_label_of_qpns(Qpn local, Qpn remote) {
  std::uint64_t mixed = static_cast<std::uint64_t>(local.value) * remote.value;
  mixed ^= mixed >> 20;
  mixed ^= mixed >> 40;
  return static_cast<std::uint32_t>(mixed & 0xfffff);
}

// RC and UC. A flow label of 0 means none.
[[nodiscard]] constexpr std::uint16_t source_port_of_connection(std::uint32_t flow_label, Qpn local,
                                                                Qpn remote) {
  return source_port_of_flow_label(flow_label != 0 ? flow_label : flow_label_of_qpns(local, remote));
}

// UD and QP1, which have no single remote QP: a multiplicative hash (golden ratio) of the QPN to 14 bits.
[[nodiscard]] constexpr std::uint16_t source_port_of_datagrams(Qpn local) {
  return static_cast<std::uint16_t>(kSourcePortMin +
                                    (static_cast<std::uint32_t>(local.value * 0x61c88647U) >> 18));
}

}  // namespace rrdma::wire
