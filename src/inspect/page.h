// The page of the inspector as one HTML file. It is built from inspector/, committed there, and compiled in
// (page.cc.in).
#pragma once

#include <string>
#include <string_view>

namespace rrdma::tools {

[[nodiscard]] std::string_view inspector_page();

}  // namespace rrdma::tools
