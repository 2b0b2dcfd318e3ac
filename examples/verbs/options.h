// What the servers and clients are told on the command line.
#pragma once

#include <cstdint>
#include <string>

namespace examples {

enum class Mode : std::uint8_t { kSend, kWrite, kRead, kAtomic };

struct Options {
  std::string server;  // address to listen on, or to call; a server listens on all without it
  std::string device;  // empty: the first
  std::uint16_t port = 18515;
  int gid_index = -1;       // -1: the first IPv4 address of the device
  Mode mode = Mode::kSend;  // the client's choice
  std::uint32_t rounds = 100;
  std::uint32_t size = 4096;
  unsigned clients = 1;  // that a server serves before it ends
  bool events = false;   // sleep until a completion event, instead of polling
};

// Ends the program with the usage where the words make no sense. `has_device`: whether the words
// DEVICE and GID-INDEX are taken (rdma_cm finds both by the address).
Options parse_options(int count, char** words, bool is_server, bool has_device);

const char* name_of(Mode mode);

}  // namespace examples
