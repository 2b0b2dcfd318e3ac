// Folders of the library's own trees. std::filesystem would bring the locales and streams of the C++ library
// along, and calls stat(), which glibc before 2.33 does not export.
#pragma once

#include <string>
#include <vector>

namespace rrdma::files {

// The names in a folder, sorted, without . and ..; empty if it cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

// Creates the folders above a path. False if one cannot be created.
[[nodiscard]] bool make_folders_above(const std::string& path);

// Removes a file, a link or a folder with everything in it, as far as possible. Follows no link.
void remove_tree(const std::string& path);

}  // namespace rrdma::files
