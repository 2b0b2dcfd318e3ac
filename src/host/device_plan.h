// DevicePlan: the number of devices and their reported properties, as the user requested them (`rrdma run
// --devices --device`). The text form travels in an environment variable:
//
//   plan     = count, { ";", device, ":", property, { ",", property } }   4;rrdma1:speed=200G,numa=1
//   property = name, "=", value
//
//   speed=25G|400G   width=1|4   numa=NODE   pci=DDDD:BB:DD.F   fw=TEXT   mtu=256|512|1024|2048|4096
//   vendor=NUMBER   part=NUMBER
//   max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_pd, max_srq, max_ah=NUMBER
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rrdma::host {

inline constexpr std::uint32_t kDevicesMax = 16;

// Unset members keep their default. A limit can only lower what the device offers.
struct DeviceProperties {
  std::optional<std::uint64_t> speed_mbps;
  std::optional<std::uint8_t> width;  // lanes
  std::optional<int> numa_node;
  std::string pci;  // 0000:81:00.0
  std::string firmware;
  std::optional<std::uint32_t> mtu;
  std::optional<std::uint32_t> vendor;
  std::optional<std::uint32_t> part;
  std::map<std::string, std::uint32_t, std::less<>> limits;  // by the name in ibv_device_attr

  // `offered`, or the lower limit of the plan.
  [[nodiscard]] std::uint32_t limit(std::string_view name, std::uint32_t offered) const;
};

struct DevicePlan {
  std::uint32_t count = 0;  // 0: as many as without a plan
  std::map<std::uint32_t, DeviceProperties> properties;

  [[nodiscard]] const DeviceProperties& of(std::uint32_t number) const;
};

// "200G" in Mbit/s; a bare number also counts Gbit/s.
[[nodiscard]] std::optional<std::uint64_t> parse_speed(std::string_view text);
// The error is a sentence.
[[nodiscard]] Result<DevicePlan, std::string> parse_device_plan(std::string_view text);
// Adds one `rrdma1:speed=200G,...` to the plan.
[[nodiscard]] Result<void, std::string> parse_device(std::string_view text, DevicePlan& plan);

}  // namespace rrdma::host
