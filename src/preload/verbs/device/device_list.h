// OwnDevice: one of our devices as an ibv_device.
#pragma once

#include <infiniband/verbs.h>

#include <bit>
#include <cstdint>

#include "host/device.h"

namespace rrdma::verbs {

struct OwnDevice {
  ibv_device device;
  // Vendor libraries expect the rest of their own device here: always zero.
  std::uint8_t zeroes[512];
  const host::DeviceIdentity* identity;
};

// REQUIRES: is_own(device).
const host::DeviceIdentity& identity_of(ibv_device* device);

inline __be64 big_endian(std::uint64_t value) {
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

}  // namespace rrdma::verbs
