// TreeStore: keeps the tree of files in a folder of the user, named by a fingerprint of its content. All
// processes that see the same devices share one tree, and a changed address creates another. A tree is
// written under a temporary name and renamed when complete. Creating a tree removes those that were unused
// for a day.
#pragma once

#include <string>
#include <vector>

#include "preload/files/device_tree.h"

namespace rrdma::files {

class TreeStore {
 public:
  // `folder`: absolute, writable, owned by the user.
  explicit TreeStore(std::string folder) : folder_(std::move(folder)) {}

  // Returns the root of a tree that holds exactly these entries, and writes it if needed; empty on failure.
  [[nodiscard]] std::string keep(const std::vector<TreeEntry>& entries) const;

 private:
  [[nodiscard]] bool write(const std::string& root, const std::vector<TreeEntry>& entries) const;
  void remove_unused() const;

  const std::string folder_;
};

}  // namespace rrdma::files
