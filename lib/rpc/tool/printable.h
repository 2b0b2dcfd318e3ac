// Prints texts of a server safely: a server may be hostile, and a terminal executes escape sequences.
#pragma once

#include <string>
#include <string_view>

namespace rrdma::rpc::tool {

enum class Lines { kKept, kEscaped };

// Writes each character that a terminal might execute, and each byte that is not valid UTF-8, as \xNN.
[[nodiscard]] std::string printable(std::string_view text, Lines lines);

}  // namespace rrdma::rpc::tool
