// LinkShape: what a link of a lab is like, and the words in which people write it; the same in files and on command lines.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/instant.h"
#include "base/result.h"

namespace rrdma::tools {

struct LinkShape {
  std::uint64_t rate_kbps = 0;  // 0: as fast as the kernel
  Duration delay;
  std::uint32_t loss_ppm = 0;
  std::uint32_t queue = 0;  // packets; 0: the kernel's own
  bool ecn = false;         // what would be lost is marked instead
  std::uint32_t mtu = 0;    // 0: that of Topology

  // Nothing else of the kernel's traffic control can do these.
  [[nodiscard]] bool needs_netem() const { return delay.ns != 0 || loss_ppm != 0; }
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

inline constexpr std::array<std::string_view, 6> kShapeProperties = {"rate",  "delay", "loss",
                                                                     "queue", "ecn",   "mtu"};

// One property of kShapeProperties from its text; ecn from "true" or "false". The error is a sentence.
[[nodiscard]] Result<void, std::string> set_property(LinkShape& shape, std::string_view name,
                                                     std::string_view text);
// Whether its properties go together.
[[nodiscard]] Result<void, std::string> check_shape(const LinkShape& shape);
// "10G 20us loss 0.1%"; empty where nothing was said.
[[nodiscard]] std::string describe(const LinkShape& shape);

}  // namespace rrdma::tools
