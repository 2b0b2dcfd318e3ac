// PathRule: the paths that lead into our tree. A folder that we answer for does so itself (its listing shows
// the machine's names beside ours), and with those of its names that are ours.
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

  // A cheap look that may say yes too often.
  static bool may_match(std::string_view path);
  [[nodiscard]] bool matches(std::string_view path) const;

 private:
  struct Folder {
    std::string path;
    std::vector<std::string> own_names;
  };
  std::vector<Folder> folders_;
  std::vector<std::string> whole_;  // all that is inside is ours: the places of PCI devices
  bool all_;                        // also the names that we do not have: nobody has them
};

}  // namespace rrdma::files
