// PathRule: the paths that lead into our tree. These are the folders that we answer for (their listings show
// the machine's names beside ours), and our own names in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "preload/files/device_tree.h"

namespace rrdma::files {

class PathRule {
 public:
  PathRule() = default;
  PathRule(const std::vector<DeviceView>& views, const KernelNames& kernel);

  // A cheap check with false positives.
  static bool may_match(std::string_view path);
  [[nodiscard]] bool matches(std::string_view path) const;

 private:
  struct Folder {
    std::string path;
    std::vector<std::string> own_names;
  };
  std::vector<Folder> folders_;
  std::vector<std::string> whole_;  // everything inside is ours: the folders of PCI devices
  bool all_;                        // includes names that do not exist in our tree: they exist nowhere
};

}  // namespace rrdma::files
