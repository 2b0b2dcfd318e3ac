// Paths as the program sees them. Our tree is in a folder of the user. Paths that the kernel reports (getcwd,
// /proc/self/fd) must lose that folder's name. A path with dots must be walked in the program's view: `..` of
// /sys/class/infiniband is the machine's /sys/class, and `..` of a link is the parent of its target.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rrdma::files {

// "/sys/class/infiniband" of "/run/user/7/rrdma/files.0123456789abcdef/sys/class/infiniband"; "/" for the
// root of a tree; empty for a path outside all trees.
[[nodiscard]] std::string_view seen_path(std::string_view real);

// Whether a component is "." or "..".
[[nodiscard]] bool has_dots(std::string_view path);

// Returns the target of a link, given its path in the program's view; nothing if it is no link.
using ReadLink = std::function<std::optional<std::string>(const std::string& path)>;

// The same path without dots. Follows links on the way, but not in the last component unless it is dots.
// Returns the path unchanged after too many links. REQUIRES: absolute.
[[nodiscard]] std::string without_dots(std::string_view path, const ReadLink& read_link);

}  // namespace rrdma::files
