// The fuzz targets that are linked into bin/replay. The build generates the table from CMakeLists.txt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rrdma::fuzz {

struct Target {
  const char* name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

extern const Target kTargets[];  // ends with a target without a name

}  // namespace rrdma::fuzz
