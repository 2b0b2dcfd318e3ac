// Parses the number of a character device in the form of sysfs.
#pragma once

#include <sys/sysmacros.h>
#include <sys/types.h>

#include <cstdio>

namespace rrdma::rdma_cm {

// "10:122\n"; `otherwise` for anything else.
inline dev_t parse_device_number(const char* text, dev_t otherwise) {
  unsigned major = 0, minor = 0;
  return std::sscanf(text, "%u:%u", &major, &minor) == 2 ? ::makedev(major, minor) : otherwise;
}

}  // namespace rrdma::rdma_cm
