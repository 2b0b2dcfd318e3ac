// Where the tree of files lies: a folder of the user's own, named by a fingerprint of what is in it, so that
// all processes that see the same devices share one and a changed address makes another. It is written under
// another name and renamed when whole. Trees that nobody has used for a day go when a new one is made.
#pragma once

#include <string>
#include <vector>

#include "preload/files/device_tree.h"

namespace rrdma::files {

class TreeStore {
 public:
  // `folder`: absolute, writable, the user's own.
  explicit TreeStore(std::string folder) : folder_(std::move(folder)) {}

  // The root of a tree that holds exactly these entries, written if it is not there; empty if that failed.
  [[nodiscard]] std::string keep(const std::vector<TreeEntry>& entries) const;

 private:
  [[nodiscard]] bool write(const std::string& root, const std::vector<TreeEntry>& entries) const;
  void remove_unused() const;

  const std::string folder_;
};

}  // namespace rrdma::files
