// UdpConfig: the choices of a UdpLink, and SocketFailure: why one could not be made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rrdma::link {

enum class UdpChecksum : std::uint8_t {
  kAuto,  // 0 on every packet that goes alone; segmented sends carry a real one, the kernel insists
  kZero,  // 0 on every packet: no segmented sends
};

struct UdpConfig {
  bool segmentation = true;  // UDP_SEGMENT: many packets in one send
  bool io_uring = false;     // for batches of several sockets, where the kernel allows it (docs/adr/0006)
  UdpChecksum checksum = UdpChecksum::kAuto;
  std::size_t send_ports = 4;         // for each family
  int send_buffer_octets = 4 << 20;   // asked for; the kernel gives at most net.core.wmem_max
  int receive_buffer_octets = 0;      // 0: as the daemon set it
  std::uint32_t interface_index = 0;  // of the device: link-local and multicast addresses need it
  std::uint64_t port_seed = 0;        // where the search for free source ports starts; 0: by process id
};

struct SocketFailure {
  std::string_view step;  // what was tried, as a clause: "binding a source port"
  int error = 0;          // errno
};

}  // namespace rrdma::link
