#include "nic/settings.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/format.h"
#include "host/explain.h"
#include "wire/address_text.h"

namespace rrdma::nic {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

void ignored(const char* name, std::string_view value, std::string_view allowed) {
  host::explain(host::Severity::kError, name, formatted("'{}' is ignored; allowed are {}", value, allowed));
}

void read_flag(const char* name, bool& flag) {
  const std::string_view value = variable(name);
  if (value.empty()) return;
  if (value == "0" || value == "1") {
    flag = value == "1";
  } else {
    ignored(name, value, "0 and 1");
  }
}

void read_link(LinkChoice& choice) {
  const std::string_view value = variable("RRDMA_LINK");
  if (value.empty() || value == "auto") return;
  if (value == "shm") {
    choice = LinkChoice::kShm;
  } else if (value == "udp") {
    choice = LinkChoice::kUdp;
  } else {
    ignored("RRDMA_LINK", value, "auto, shm and udp");
  }
}

void read_devices(KernelDevices& kernel) {
  const std::string_view value = variable("RRDMA_DEVICES");
  if (value.empty() || value == "first") return;
  if (value == "only") {
    kernel = KernelDevices::kHidden;
  } else if (value == "beside") {
    kernel = KernelDevices::kBefore;
  } else {
    ignored("RRDMA_DEVICES", value, "first, only and beside");
  }
}

void read_device_plan(host::DevicePlan& plan) {
  auto parsed = host::parse_device_plan(variable("RRDMA_DEVICE_PLAN"));
  if (parsed) {
    plan = std::move(*parsed);
  } else {
    host::explain(host::Severity::kError, "RRDMA_DEVICE_PLAN", parsed.error());
  }
}

void read_fault(link::FaultSpec& fault) {
  const std::string_view value = variable("RRDMA_FAULT");
  if (value.empty()) return;
  auto parsed = link::parse_fault_spec(value);
  if (parsed) {
    fault = *parsed;
  } else {
    host::explain(host::Severity::kError, "RRDMA_FAULT", parsed.error());
  }
}

void read_strict(Settings& settings) {
  std::string_view value = variable("RRDMA_STRICT");
  if (value == "0" || value == "1") {
    settings.strict = value == "1";
    return;
  }
  while (!value.empty()) {
    const auto comma = value.find(',');
    const std::string text(value.substr(0, comma));
    value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
    if (const auto gid = wire::gid_of_text(text)) {
      settings.strict_peers.push_back(*gid);
    } else {
      ignored("RRDMA_STRICT", text, "0, 1 and IP addresses of peers, separated by commas");
    }
  }
}

void read_congestion(transport::CongestionKind& kind) {
  const std::string_view value = variable("RRDMA_CC");
  if (value.empty()) return;
  if (const auto known = transport::parse_congestion_kind(value)) {
    kind = *known;
  } else {
    ignored("RRDMA_CC", value, "auto, loss, swift, dcqcn, fixed and none");
  }
}

void read_capture_limits(link::CaptureLimits& limits) {
  auto parsed = link::parse_capture_limits(variable("RRDMA_PCAP_LIMITS"));
  if (parsed) {
    limits = *parsed;
  } else {
    host::explain(host::Severity::kError, "RRDMA_PCAP_LIMITS", parsed.error());
  }
}

void read_number(const char* name, std::uint32_t& number, std::string_view allowed) {
  const std::string_view value = variable(name);
  if (value.empty()) return;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    number = 0;
    ignored(name, value, allowed);
  }
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  settings.netdev = variable("RRDMA_NETDEV");
  settings.capture_file = variable("RRDMA_PCAP");
  read_link(settings.link);
  read_devices(settings.kernel_devices);
  read_device_plan(settings.device_plan);
  read_fault(settings.fault);
  read_capture_limits(settings.capture_limits);
  read_flag("RRDMA_IO_URING", settings.io_uring);
  read_flag("RRDMA_GSO", settings.segmentation);
  read_flag("RRDMA_DIRECT", settings.direct);
  read_flag("RRDMA_LID", settings.lid);
  read_strict(settings);
  read_congestion(settings.congestion);
  read_number("RRDMA_RCVBUF", settings.receive_buffer_octets, "numbers of bytes");
  read_number("RRDMA_LANES", settings.lanes, "numbers of lanes, 0 for as many as cores");
  const std::string_view checksum = variable("RRDMA_UDP_CHECKSUM");
  if (checksum == "zero") {
    settings.udp_checksum_zero = true;
  } else if (!checksum.empty() && checksum != "auto") {
    ignored("RRDMA_UDP_CHECKSUM", checksum, "auto and zero");
  }
  return settings;
}

}  // namespace rrdma::nic
