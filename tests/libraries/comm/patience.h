// Timeouts and addresses for the programs of tests/libraries.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>

#include "rrdma/comm/context.h"

namespace comm_test {

// The timeout for expected events. An emulated machine with shared CPUs needs more (tests/interop/rxe).
inline std::chrono::seconds patience(int seconds) {
  const char* given = std::getenv("RRDMA_TEST_PATIENCE");
  return std::chrono::seconds(given != nullptr ? std::atoi(given) : seconds);
}

// The first IPv4 address of the device.
inline std::string address_of(const rrdma::comm::Context& context) {
  for (const std::string& address : context.device().addresses) {
    if (address.find(':') == std::string::npos) return address;
  }
  return context.device().addresses.at(0);
}

}  // namespace comm_test
