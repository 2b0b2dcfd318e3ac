// Settings of the NIC in this process. `rrdma run` passes them in environment variables, so that they reach
// the library inside any program. A variable that cannot be parsed is reported once and ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/device_plan.h"
#include "link/capture_limits.h"
#include "link/fault_spec.h"
#include "transport/recovery/congestion.h"
#include "wire/gid.h"

namespace rrdma::nic {

// Position of kernel devices in the lists that programs see.
enum class KernelDevices : std::uint8_t { kBehind, kHidden, kBefore };

enum class LinkChoice : std::uint8_t { kAuto, kShm, kUdp };

struct Settings {
  std::string netdev;                   // RRDMA_NETDEV; empty: interface of the default route, else lo
  LinkChoice link = LinkChoice::kAuto;  // RRDMA_LINK=auto|shm|udp
  KernelDevices kernel_devices = KernelDevices::kBehind;  // RRDMA_DEVICES=first|only|beside
  host::DevicePlan device_plan;                           // RRDMA_DEVICE_PLAN
  link::FaultSpec fault;                                  // RRDMA_FAULT
  std::string capture_file;                               // RRDMA_PCAP
  link::CaptureLimits capture_limits;                     // RRDMA_PCAP_LIMITS
  bool io_uring = false;           // RRDMA_IO_URING=0|1: measured slower than plain calls (docs/adr/0006)
  bool segmentation = true;        // RRDMA_GSO=0|1
  bool direct = true;              // RRDMA_DIRECT=0|1: one-sided operations by the initiator
  bool udp_checksum_zero = false;  // RRDMA_UDP_CHECKSUM=auto|zero
  bool lid = false;  // RRDMA_LID=0|1: ports have LIDs, for programs without GID support (docs/adr/0009)
  // RRDMA_STRICT=0|1: the wire format before probes and repairs (docs/adr/0018). A list of addresses: only
  // for those peers.
  bool strict = false;
  std::vector<wire::Gid> strict_peers;
  transport::CongestionKind congestion = transport::CongestionKind::kAutomatic;  // RRDMA_CC
  std::uint32_t receive_buffer_octets = 0;  // RRDMA_RCVBUF; 0: as large as allowed
  std::uint32_t lanes = 0;                  // RRDMA_LANES: upper limit; 0: number of cores

  // While packets are captured or faults injected, everything goes as single packets.
  [[nodiscard]] bool packets_only() const { return fault.any() || !capture_file.empty(); }
  [[nodiscard]] bool direct_allowed() const { return direct && !packets_only(); }
};

Settings settings_from_environment();

}  // namespace rrdma::nic
