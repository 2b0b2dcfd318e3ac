#include "preload/files/folders.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace rrdma::files {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const list = ::opendir(folder.c_str());
  if (list == nullptr) return names;
  while (const dirent* entry = ::readdir(list)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(list);
  std::sort(names.begin(), names.end());
  return names;
}

bool make_folders_above(const std::string& path) {
  for (auto slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (::mkdir(path.substr(0, slash).c_str(), 0777) != 0 && errno != EEXIST) return false;
  }
  return true;
}

void remove_tree(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return;
  for (const std::string& name : names_in(path)) remove_tree(path + "/" + name);
  (void)::rmdir(path.c_str());
}

}  // namespace rrdma::files
