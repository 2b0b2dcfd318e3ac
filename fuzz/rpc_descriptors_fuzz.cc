// The texts that a server sends to `rrdma-rpc` about its services: descriptors, a JSON argument for them, and
// a result. A server may send anything. An error is an exception of one type, and all that is printed is
// visible.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "cost.h"
#include "lib/rpc/tool/json_messages.h"
#include "lib/rpc/tool/printable.h"

namespace rrdma::rpc_descriptors_fuzz {

using namespace rrdma::rpc::tool;

constexpr std::size_t kOctetsMax = 8192;

void require_visible(const std::string& text) {
  for (const char c : printable(text, Lines::kEscaped)) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t') std::abort();
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static auto* const silenced = google::protobuf::SetLogHandler(nullptr);
  if (size < 2 || size > kOctetsMax) return 0;
  // The first two bytes: where the result begins in the rest.
  const std::string_view all(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t first = (data[0] << 8 | data[1]) % (all.size() + 1);
  const std::string descriptors(all.substr(0, first));
  const std::string result(all.substr(first));
  const rrdma::fuzz::Cost cost({.ms = 2000});
  try {
    const JsonMessages messages(descriptors, "s.S", "m");
    (void)messages.method();
    for (const std::string_view json : {std::string_view("{}"), std::string_view(result)}) {
      try {
        (void)messages.argument(json);
      } catch (const std::runtime_error& error) {
        require_visible(error.what());
      }
    }
    require_visible(messages.text_of_result(result));
  } catch (const std::runtime_error& error) {
    require_visible(error.what());
  }
  return 0;
}

}  // namespace rrdma::rpc_descriptors_fuzz
