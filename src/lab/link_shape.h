// LinkShape: the properties of a link in a lab, and their text form in files and on command lines.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/instant.h"
#include "base/result.h"

namespace rrdma::tools {

struct LinkShape {
  std::uint64_t rate_kbps = 0;  // 0: unlimited
  Duration delay;
  std::uint32_t loss_ppm = 0;
  std::uint32_t queue = 0;  // packets; 0: the kernel's default
  bool ecn = false;         // mark instead of dropping
  std::uint32_t mtu = 0;    // 0: that of Topology

  // Only netem can do these.
  [[nodiscard]] bool needs_netem() const { return delay.ns != 0 || loss_ppm != 0; }
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

inline constexpr std::array<std::string_view, 6> kShapeProperties = {"rate",  "delay", "loss",
                                                                     "queue", "ecn",   "mtu"};

// Sets one of kShapeProperties from text; ecn takes "true" or "false". The error is a sentence.
[[nodiscard]] Result<void, std::string> set_property(LinkShape& shape, std::string_view name,
                                                     std::string_view text);
// Checks that the properties are compatible.
[[nodiscard]] Result<void, std::string> check_shape(const LinkShape& shape);
// "10G 20us loss 0.1%"; empty if nothing is set.
[[nodiscard]] std::string describe(const LinkShape& shape);

}  // namespace rrdma::tools
