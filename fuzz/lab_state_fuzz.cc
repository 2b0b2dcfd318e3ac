// The files of a lab: the state that commands in the lab read, and the topology that a user writes. From any
// text, every link of the parsed topology has two nodes, and the topology is the same after it is written and
// read again.
#include <fcntl.h>
#include <linux/memfd.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/assert.h"
#include "base/owned_fd.h"
#include "cost.h"
#include "lab/picture.h"
#include "lab/topology.h"

namespace rrdma::lab_state_fuzz {

using namespace rrdma::tools;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kTextMax = 4096;
  if (size > kTextMax) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const fuzz::Cost cost({.ms = 2000});
  {
    const Topology state = parse_topology(text);
    for (const LabLink& link : state.links)
      RRDMA_ASSERT(link.a < state.nodes.size() && link.b < state.nodes.size());
    (void)terminal_picture(state, {}, {});
    const std::string written = emit_topology(state);
    RRDMA_ASSERT(emit_topology(parse_topology(written)) == written);
  }
  const OwnedFd file(raw::memfd_create("topology", MFD_CLOEXEC));
  RRDMA_ASSERT(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  const auto read = read_topology("/proc/self/fd/" + std::to_string(file.get()));
  if (read.ok()) {
    for (const LabLink& link : read->links)
      RRDMA_ASSERT(link.a < read->nodes.size() && link.b < read->nodes.size());
    (void)terminal_picture(*read, {}, {});
  }
  return 0;
}

}  // namespace rrdma::lab_state_fuzz
