// The only file that compiles {fmt}; all others see its declarations. Debian has no static {fmt}, and we must
// not load a shared one into other people's programs.
#define FMT_HEADER_ONLY 1
// Without std::locale, which brings half a megabyte of libstdc++ into librrdma.so.1: older and newer {fmt}.
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#define FMT_USE_LOCALE 0
#include "base/format.h"

#include <fmt/format.h>

namespace rrdma {

std::string format_text(fmt::string_view text, fmt::format_args values) { return fmt::vformat(text, values); }

}  // namespace rrdma
