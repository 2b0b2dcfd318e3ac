// Frames of rrdma::rpc from arbitrary bytes. Accepted frames lie within them, and are the same when written
// and parsed again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cost.h"
#include "lib/rpc/frame.h"

namespace rrdma::rpc_frame_fuzz {

using namespace rrdma::rpc;
using namespace rrdma::rpc::detail;

void require(bool condition) {
  if (!condition) std::abort();
}
template <typename T>
bool within(const T& part, std::span<const std::byte> whole) {
  const auto* begin = reinterpret_cast<const std::byte*>(part.data());
  return part.empty() || (begin >= whole.data() && begin + part.size() <= whole.data() + whole.size());
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  const std::span octets(reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(parse_client_hello(octets));
  static_cast<void>(parse_server_hello(octets));
  const auto frame = parse_frame(octets);
  if (!frame) return 0;
  require(within(frame->body, octets) && within(frame->metadata, octets) && within(frame->message, octets) &&
          within(frame->details, octets));
  std::vector<std::byte> again(head_size(*frame));
  require(again.size() + frame->body.size() == size);
  emit_head(*frame, again.data());
  require(std::memcmp(again.data(), octets.data(), again.size()) == 0);
  if (frame->kind == Kind::kPack) {
    for (auto rest = frame->body; !rest.empty();) {
      const auto packed = next_packed(rest);
      require(!packed.empty() && within(packed, octets));
      static_cast<void>(parse_frame(packed));
    }
  }
  Metadata metadata;
  if (parse_metadata(frame->metadata, metadata)) {
    require(emitted_size(metadata) == frame->metadata.size() && fits(metadata));
    std::vector<std::byte> emitted(emitted_size(metadata));
    emit_metadata(metadata, emitted.data());
    require(emitted.empty() || std::memcmp(emitted.data(), frame->metadata.data(), emitted.size()) == 0);
  }
  return 0;
}

}  // namespace rrdma::rpc_frame_fuzz
