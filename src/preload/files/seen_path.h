// Paths as the program sees them. Our tree lies in a folder of the user's own; what the kernel says of a place in it (getcwd,
// /proc/self/fd) must lose that folder's name, and a path with dots must be walked in the program's view: `..` of
// /sys/class/infiniband is the machine's /sys/class, and `..` of a link is the parent of where it leads to.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rrdma::files {

// "/sys/class/infiniband" of "/run/user/7/rrdma/files.0123456789abcdef/sys/class/infiniband"; "/" for the root of a tree;
// empty for a path outside of all trees.
[[nodiscard]] std::string_view seen_path(std::string_view real);

// Whether a component is "." or "..".
[[nodiscard]] bool has_dots(std::string_view path);

// Where a link leads to, by its path in the program's view; nothing for what is no link.
using ReadLink = std::function<std::optional<std::string>(const std::string& path)>;

// The same path without dots. Links on the way are followed; the last component is left as it is, unless it is dots.
// REQUIRES: absolute. Ends with the path as it is after too many links.
[[nodiscard]] std::string without_dots(std::string_view path, const ReadLink& read_link);

}  // namespace rrdma::files
