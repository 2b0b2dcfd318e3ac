// Exports a report: the page with an analysis inside, as one file that needs no server and no network.
#pragma once

#include <string>

#include "inspect/analysis.h"

namespace rrdma::tools {

// The number of packets whose fields the report contains. Packets with findings come first.
inline constexpr std::size_t kExportDetailsMax = 30'000;

[[nodiscard]] std::string exported_page(const Analysis& analysis);

// Compresses with zlib and encodes in base64, as the page expects.
[[nodiscard]] std::string packed_base64(std::string_view octets);

}  // namespace rrdma::tools
