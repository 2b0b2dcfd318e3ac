// UdpConfig: the options of a UdpLink. SocketFailure: the reason why one could not be opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rrdma::link {

enum class UdpChecksum : std::uint8_t {
  kAuto,  // 0 on packets sent alone; the kernel requires a real one on segmented sends
  kZero,  // 0 on every packet; no segmented sends
};

struct UdpConfig {
  bool segmentation = true;  // UDP_SEGMENT: many packets in one send
  bool io_uring = false;     // for batches of several sockets, if the kernel allows it (docs/adr/0006)
  UdpChecksum checksum = UdpChecksum::kAuto;
  std::size_t send_ports = 4;         // for each family
  int send_buffer_octets = 4 << 20;   // requested; the kernel gives at most net.core.wmem_max
  int receive_buffer_octets = 0;      // 0: as the daemon set it
  std::uint32_t interface_index = 0;  // of the device; needed for link-local and multicast addresses
  std::uint64_t port_seed = 0;        // start of the search for free source ports; 0: from the process id
};

struct SocketFailure {
  std::string_view step;  // the attempted step, as a clause: "binding a source port"
  int error = 0;          // errno
};

}  // namespace rrdma::link
