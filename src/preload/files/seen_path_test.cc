#include "preload/files/seen_path.h"

#include <gtest/gtest.h>

#include <map>

namespace rrdma::files::seen_path_test {

TEST(SeenPath, LosesTheFolderOfTheTree) {
  const std::string root = "/run/user/7/rrdma/files.0123456789abcdef";
  EXPECT_EQ(seen_path(root + "/sys/class/infiniband"), "/sys/class/infiniband");
  EXPECT_EQ(seen_path("/tmp/rrdma-7/files.0123456789abcdef/dev"), "/dev");
  EXPECT_EQ(seen_path(root), "/");
}

TEST(SeenPath, IsNothingOutsideOfTrees) {
  for (const char* path :
       {"/sys/class/infiniband", "/srv/files.0123456789abcdef/x", "/tmp/rrdma-7/files.0123/x",
        "/tmp/rrdma-7/files.0123456789abcdefg/x", "/tmp/rrdma-7/explain.1", "", "/"})
    EXPECT_EQ(seen_path(path), "") << path;
}

TEST(HasDots, LooksAtWholeComponents) {
  for (const char* path : {"..", "a/..", "/a/./b", "./a", "/sys/../dev"}) EXPECT_TRUE(has_dots(path)) << path;
  for (const char* path : {"", "/", "...", "/a/b.", "/.a/b", "/..a", "a..b"})
    EXPECT_FALSE(has_dots(path)) << path;
}

class WithoutDots : public ::testing::Test {
 protected:
  std::string walk(const char* path) {
    return without_dots(path, [&](const std::string& at) -> std::optional<std::string> {
      const auto found = links_.find(at);
      return found == links_.end() ? std::nullopt : std::optional(found->second);
    });
  }
  std::map<std::string, std::string> links_ = {
      {"/sys/class/infiniband/rrdma0", "../../devices/virtual/infiniband/rrdma0"},
      {"/absolute", "/sys/class"},
      {"/loop", "/loop/."}};
};

TEST_F(WithoutDots, GoesUpAndStays) {
  EXPECT_EQ(walk("/sys/class/infiniband/../net/lo"), "/sys/class/net/lo");
  EXPECT_EQ(walk("/sys/class/net/../infiniband"), "/sys/class/infiniband");
  EXPECT_EQ(walk("/sys/class/./infiniband/."), "/sys/class/infiniband");
  EXPECT_EQ(walk("/../.."), "/");
  EXPECT_EQ(walk("/"), "/");
}

TEST_F(WithoutDots, TheParentOfALinkIsThatOfItsTarget) {
  EXPECT_EQ(walk("/sys/class/infiniband/rrdma0/.."), "/sys/devices/virtual/infiniband");
  EXPECT_EQ(walk("/sys/class/infiniband/rrdma0/../rrdma0/ports"),
            "/sys/devices/virtual/infiniband/rrdma0/ports");
  EXPECT_EQ(walk("/absolute/./infiniband"), "/sys/class/infiniband");
}

TEST_F(WithoutDots, TheLastComponentIsNotFollowed) {
  EXPECT_EQ(walk("/sys/class/../class/infiniband/rrdma0"), "/sys/class/infiniband/rrdma0");
}

TEST_F(WithoutDots, EndsOfALoop) { EXPECT_EQ(walk("/loop/x/."), "/loop/x/."); }

}  // namespace rrdma::files::seen_path_test
