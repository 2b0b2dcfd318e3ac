// A report: the page with an analysis inside, one file that needs no server and no network.
#pragma once

#include <string>

#include "tools/inspect/analysis.h"

namespace rrdma::tools {

// Of so many packets the report has every field; those that something happened to come first.
inline constexpr std::size_t kExportDetailsMax = 30'000;

[[nodiscard]] std::string exported_page(const Analysis& analysis);

// As the page reads it: zlib's format, in base64.
[[nodiscard]] std::string packed_base64(std::string_view octets);

}  // namespace rrdma::tools
