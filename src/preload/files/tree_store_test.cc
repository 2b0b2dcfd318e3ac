// Trees on disk: shared while their content is the same, complete or absent, removed when unused.
#include "preload/files/tree_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rrdma::files::tree_store_test {

namespace fs = std::filesystem;

class TreeStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rrdma-files-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<fs::path> trees() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }
  static void age(const fs::path& path, std::chrono::hours hours) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - hours);
  }

  std::string folder_;
};

std::string content_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<TreeEntry> small_tree(const std::string& word) {
  return {{"a/b/file", TreeEntry::Kind::kFile, word}, {"a/link", TreeEntry::Kind::kLink, "b"}};
}

TEST_F(TreeStoreTest, WritesFilesAndLinks) {
  const std::string root = TreeStore(folder_).keep(small_tree("one\n"));
  ASSERT_FALSE(root.empty());
  EXPECT_EQ(content_of(root + "/a/b/file"), "one\n");
  EXPECT_EQ(content_of(root + "/a/link/file"), "one\n");
  EXPECT_EQ(trees().size(), 1u) << "nothing half-written is left";
}

TEST_F(TreeStoreTest, SameContentSameTree) {
  const TreeStore store(folder_);
  EXPECT_EQ(store.keep(small_tree("one")), store.keep(small_tree("one")));
  EXPECT_NE(store.keep(small_tree("one")), store.keep(small_tree("two")));
  EXPECT_EQ(trees().size(), 2u);
}

TEST_F(TreeStoreTest, TreeThatLostAFileIsWrittenAnew) {
  const TreeStore store(folder_);
  const std::string root = store.keep(small_tree("one"));
  fs::remove(root + "/a/b/file");
  age(root, std::chrono::hours(5));
  EXPECT_EQ(store.keep(small_tree("one")), root);
  EXPECT_EQ(content_of(root + "/a/b/file"), "one");
}

TEST_F(TreeStoreTest, UnusedTreesGoAndOthersStay) {
  const TreeStore store(folder_);
  const std::string old = store.keep(small_tree("old"));
  const std::string used = store.keep(small_tree("used"));
  std::ofstream(folder_ + "/explain.1") << "not ours to remove";
  age(old, std::chrono::hours(30));
  age(folder_ + "/explain.1", std::chrono::hours(30));
  const std::string fresh = store.keep(small_tree("fresh"));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(used));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(folder_ + "/explain.1"));
}

TEST_F(TreeStoreTest, FolderThatCannotBeWritten) {
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_TRUE(TreeStore(folder_ + "/file").keep(small_tree("one")).empty());
}

}  // namespace rrdma::files::tree_store_test
