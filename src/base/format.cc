// The only file that compiles {fmt}; all others see its declarations. Debian has no static {fmt}, and we must
// not load a shared one into other people's programs.
#define FMT_HEADER_ONLY 1
#include "base/format.h"

#include <fmt/format.h>

namespace rrdma {

std::string format_text(fmt::string_view text, fmt::format_args values) { return fmt::vformat(text, values); }

}  // namespace rrdma
