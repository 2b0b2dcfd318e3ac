// Parses any bytes as the hello and the refusal that two ends of rrdma::comm exchange when they connect. An
// accepted message lies within its bytes, and is the same after it is written again.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "cost.h"
#include "lib/comm/hello.h"

namespace rrdma::comm_hello_fuzz {

using namespace rrdma::comm::detail;

void require(bool condition) {
  if (!condition) std::abort();
}
std::span<const std::byte> octets_of(const std::string& text) { return std::as_bytes(std::span(text)); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span octets(reinterpret_cast<const std::byte*>(data), size);
  const rrdma::fuzz::Cost cost({.ms = 50, .octets = 4096});
  Hello hello;
  if (parse_hello(octets, hello) == HelloFault::kNone) {
    require(hello.application.size() + kHelloHeader <= size);
    Hello again;
    require(parse_hello(octets_of(emit_hello(hello)), again) == HelloFault::kNone);
    require(again.receive_depth == hello.receive_depth && again.message_limit == hello.message_limit &&
            again.application == hello.application);
  }
  if (const auto note = parse_refusal(octets)) {
    require(note->text.size() <= size);
    const auto again = parse_refusal(octets_of(emit_refusal(*note)));
    require(again && again->kind == note->kind && again->reason == note->reason);
  }
  return 0;
}

}  // namespace rrdma::comm_hello_fuzz
