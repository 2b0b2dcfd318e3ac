// The analysis of `rrdma inspect`, and all that it writes, of capture files that a stranger made. Two files
// are analysed together, as captures of two hosts. Every index in the result is valid, and the cost of one
// file is bounded.
#include <nlohmann/json.hpp>
#include <string>

#include "base/assert.h"
#include "cost.h"
#include "input.h"
#include "inspect/analysis.h"
#include "inspect/capture_image.h"
#include "inspect/perfetto.h"
#include "tools/decode/connections.h"

namespace rrdma::inspect_fuzz {

using namespace rrdma::tools;

constexpr std::size_t kFileOctetsMax = 32 * 1024;
constexpr std::uint64_t kPacketsMax = 256;

void check(const Analysis& analysis) {
  const PacketColumns& columns = analysis.columns;
  const std::size_t count = columns.size();
  RRDMA_ASSERT(count <= kPacketsMax && analysis.where.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    RRDMA_ASSERT(columns.connection[i] == kNoIndex || columns.connection[i] < analysis.connections.size());
    RRDMA_ASSERT(columns.partner[i] == kNoIndex || columns.partner[i] < count);
  }
  RRDMA_ASSERT(analysis.findings.size() <= kFindingsMax && analysis.handshakes.size() <= kHandshakesMax);
  for (const CaptureFinding& finding : analysis.findings) {
    RRDMA_ASSERT(finding.packets.size() <= kFindingPacketsMax);
    for (const std::uint32_t packet : finding.packets) RRDMA_ASSERT(packet < count);
  }
  for (const Handshake& handshake : analysis.handshakes) {
    for (const std::uint32_t packet : handshake.packets) RRDMA_ASSERT(packet < count);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > kFileOctetsMax) return 0;
  // The first byte says where the second file begins.
  const Octets all(data + 1, size - 1);
  const std::size_t first = data[0] == 0 ? all.size() : all.size() * data[0] / 256;
  const CaptureInput inputs[] = {{"one", all.first(first)}, {"two", all.subspan(first)}};
  const fuzz::Cost cost({.ms = 2000});
  const Analysis analysis = analyse(std::span(inputs).first(data[0] == 0 ? 1 : 2), kPacketsMax);
  check(analysis);
  (void)capture_image(analysis);
  (void)perfetto_trace(analysis);
  StringTable strings;
  for (std::uint32_t i = 0; i < analysis.columns.size(); ++i) (void)packet_details(analysis, i, strings);
  return 0;
}

}  // namespace rrdma::inspect_fuzz
