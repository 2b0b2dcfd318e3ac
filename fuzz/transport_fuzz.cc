// BTH, extension headers and payload from arbitrary bytes. Accepted input is emitted unchanged.
#include <algorithm>
#include <array>
#include <cstdint>

#include "base/assert.h"
#include "cost.h"
#include "wire/transport_packet.h"

namespace rrdma::transport_fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  using namespace rrdma::wire;
  const Octets input(data, size);
  TransportPacket packet;
  const TransportError error = parse_transport(input, packet);
  RRDMA_ASSERT(!describe(error).empty());
  if (error != TransportError::kNone) return 0;
  std::array<std::uint8_t, kHeaderOctetsMax> headers{};
  const std::size_t written = emit_transport_headers(packet.headers, headers.data());
  RRDMA_ASSERT(std::equal(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(written), data));
  RRDMA_ASSERT(written + packet.payload.size() + packet.headers.bth.pad == size);
  RRDMA_ASSERT(packet.payload.empty() || packet.payload.data() == data + written);
  TransportHeaders again;
  RRDMA_ASSERT(parse_transport_headers(headers, again) == TransportError::kNone && again == packet.headers);
  return 0;
}

}  // namespace rrdma::transport_fuzz
