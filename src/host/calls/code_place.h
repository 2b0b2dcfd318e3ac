// CodePlace: a place in the program's code, as a file and offsets in it. The library records only that. Tools
// resolve it to a source line, so that no program loads debug information because of RRDMA.
#pragma once

#include <cstdint>

#include "base/call_site.h"

namespace rrdma::host {

struct CodePlace {
  static constexpr std::size_t kModuleMax = 256;
  char module[kModuleMax] = {};  // path of the executable or the shared object; empty: unknown
  std::uint64_t inner = 0;       // file offsets of the return addresses in it
  std::uint64_t outer = 0;       // 0: unknown
};

// Reads /proc/self/maps: for errors only. Any thread; takes no lock.
[[nodiscard]] CodePlace place_of(const CallSite& site) noexcept;

// The place of the program's call that this thread executes: the first return address outside of RRDMA,
// libibverbs and librdmacm. Unknown on a thread of the library. Unwinds the frames of these libraries and one
// frame more.
[[nodiscard]] CodePlace place_of_call() noexcept;

}  // namespace rrdma::host
