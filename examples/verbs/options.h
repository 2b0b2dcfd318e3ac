// Command line options of the servers and clients.
#pragma once

#include <cstdint>
#include <string>

namespace examples {

enum class Mode : std::uint8_t { kSend, kWrite, kRead, kAtomic };

struct Options {
  std::string server;  // address to listen on or to connect to; an empty one listens on all
  std::string device;  // empty: the first
  std::uint16_t port = 18515;
  int gid_index = -1;       // -1: the first IPv4 address of the device
  Mode mode = Mode::kSend;  // the client's choice
  std::uint32_t rounds = 100;
  std::uint32_t size = 4096;
  unsigned clients = 1;  // clients that a server serves before it ends
  bool events = false;   // sleep until a completion event instead of polling
};

// Prints the usage and ends the program if the words are invalid. `has_device`: whether DEVICE and GID-INDEX
// are accepted (rdma_cm finds both by the address).
Options parse_options(int count, char** words, bool is_server, bool has_device);

const char* name_of(Mode mode);

}  // namespace examples
