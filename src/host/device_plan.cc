#include "host/device_plan.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace rrdma::host {
namespace {

constexpr std::string_view kPrefix = "rrdma";
constexpr std::array<std::string_view, 9> kLimits = {"max_qp", "max_qp_wr", "max_sge", "max_cq", "max_cqe",
                                                     "max_mr", "max_pd",    "max_srq", "max_ah"};

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// Decimal, or hexadecimal after 0x.
std::optional<std::uint64_t> number_of(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_up_to(std::string_view text, std::uint64_t most) {
  const auto value = number_of(text);
  return value && *value <= most ? value : std::nullopt;
}

// "0000:81:00.0"
bool is_pci_address(std::string_view text) {
  constexpr std::string_view kForm = "xxxx:xx:xx.x";
  return text.size() == kForm.size() &&
         std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
           const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           return form == 'x' ? digit : c == form;
         });
}

template <typename T>
Result<void, std::string> keep(std::optional<T>& to, const std::optional<std::uint64_t>& value,
                               std::string_view name, std::string_view text, std::string_view allowed) {
  if (!value) {
    return Failure{quoted(text) + " is no value for " + quoted(name) + ": write " + std::string(allowed) +
                   "."};
  }
  to = static_cast<T>(*value);
  return {};
}

Result<void, std::string> parse_property(std::string_view item, DeviceProperties& to) {
  const std::size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  if (equals == std::string_view::npos)
    return Failure{quoted(item) + " has no value: write name=value, for example speed=200G."};
  const std::string_view text = item.substr(equals + 1);
  if (name == "speed")
    return keep(to.speed_mbps, parse_speed(text), name, text, "gigabits a second, for example 200G");
  if (name == "width") {
    const auto lanes = number_of(text);
    return keep(to.width, lanes == 1 || lanes == 4 ? lanes : std::nullopt, name, text, "1 or 4 (lanes)");
  }
  if (name == "numa") return keep(to.numa_node, number_up_to(text, 1023), name, text, "the number of a node");
  if (name == "mtu") {
    const auto octets = number_of(text);
    const bool known = octets && *octets >= 256 && *octets <= 4096 && (*octets & (*octets - 1)) == 0;
    return keep(to.mtu, known ? octets : std::nullopt, name, text, "256, 512, 1024, 2048 or 4096");
  }
  if (name == "vendor")
    return keep(to.vendor, number_up_to(text, 0xffffff), name, text, "a number such as 0x02c9");
  if (name == "part")
    return keep(to.part, number_up_to(text, 0xffffffff), name, text, "a number such as 4129");
  if (name == "pci") {
    if (!is_pci_address(text))
      return Failure{quoted(text) + " is no PCI address: write one such as 0000:81:00.0, in lower case."};
    to.pci = text;
    return {};
  }
  if (name == "fw") {
    if (text.empty() || text.size() > 63 || text.find('/') != std::string_view::npos)
      return Failure{quoted(text) +
                     " is no firmware version: write up to 63 characters, for example 22.36.1010."};
    to.firmware = text;
    return {};
  }
  if (std::find(kLimits.begin(), kLimits.end(), name) != kLimits.end()) {
    const auto most = number_up_to(text, 0x7fffffff);
    if (!most || *most == 0)
      return Failure{quoted(text) + " is no limit for " + quoted(name) + ": write a number from 1."};
    to.limits[std::string(name)] = static_cast<std::uint32_t>(*most);
    return {};
  }
  return Failure{
      quoted(name) +
      " is no property of a device: known are speed, width, numa, pci, fw, mtu, vendor, part, max_qp, "
      "max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_pd, max_srq and max_ah."};
}

}  // namespace

std::optional<std::uint64_t> parse_speed(std::string_view text) {
  if (text.ends_with('G')) text.remove_suffix(1);
  const auto gigabits = number_up_to(text, 1600);
  if (!gigabits || *gigabits == 0) return std::nullopt;
  return *gigabits * 1000;
}

std::uint32_t DeviceProperties::limit(std::string_view name, std::uint32_t offered) const {
  const auto found = limits.find(name);
  return found == limits.end() ? offered : std::min(found->second, offered);
}

const DeviceProperties& DevicePlan::of(std::uint32_t number) const {
  static const auto* const nothing = new DeviceProperties;
  const auto found = properties.find(number);
  return found == properties.end() ? *nothing : found->second;
}

Result<void, std::string> parse_device(std::string_view text, DevicePlan& plan) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto number =
      name.starts_with(kPrefix) ? number_up_to(name.substr(kPrefix.size()), kDevicesMax - 1) : std::nullopt;
  if (!number || colon == std::string_view::npos) {
    return Failure{quoted(text) + " names no device: write rrdmaN:property=value,... with N up to " +
                   std::to_string(kDevicesMax - 1) + "."};
  }
  DeviceProperties& properties = plan.properties[static_cast<std::uint32_t>(*number)];
  std::string_view rest = text.substr(colon + 1);
  for (;;) {
    const std::size_t comma = rest.find(',');
    if (auto parsed = parse_property(rest.substr(0, comma), properties); !parsed) return parsed;
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

Result<DevicePlan, std::string> parse_device_plan(std::string_view text) {
  DevicePlan plan;
  if (text.empty()) return plan;
  const std::size_t first_end = text.find(';');
  const auto count = number_up_to(text.substr(0, first_end), kDevicesMax);
  if (!count)
    return Failure{quoted(text.substr(0, first_end)) + " is no number of devices: write one from 1 to " +
                   std::to_string(kDevicesMax) + "."};
  plan.count = static_cast<std::uint32_t>(*count);
  while (text.find(';') != std::string_view::npos) {
    text.remove_prefix(text.find(';') + 1);
    if (auto parsed = parse_device(text.substr(0, text.find(';')), plan); !parsed)
      return Failure{parsed.error()};
  }
  return plan;
}

}  // namespace rrdma::host
