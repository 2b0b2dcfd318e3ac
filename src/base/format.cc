// Every other file sees only declarations of {fmt}; this one compiles it in. Debian has no static {fmt}, and a shared one
// must not be loaded into other people's programs.
#define FMT_HEADER_ONLY 1
#include "base/format.h"

#include <fmt/format.h>

namespace rrdma {

std::string format_text(fmt::string_view text, fmt::format_args values) { return fmt::vformat(text, values); }

}  // namespace rrdma
