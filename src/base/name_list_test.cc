#include "base/name_list.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace rrdma::name_list_test {

NameList list;  // a NameList keeps its names for the rest of the process

TEST(NameList, KeepsEachNameOnce) {
  list.add("store.Store/Get");
  list.add("store.Store/Put");
  list.add("store.Store/Get");
  list.add("");
  list.add(std::string(NameList::kOctetsMax + 1, 'x'));
  ASSERT_NE(list.at(0), nullptr);
  EXPECT_EQ(*list.at(0), "store.Store/Get");
  EXPECT_EQ(*list.at(1), "store.Store/Put");
  EXPECT_EQ(list.at(2), nullptr);
  // Threads that add the same names, more than fit.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (std::size_t name = 0; name < NameList::kNamesMax; ++name) list.add(std::to_string(name));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 2; i < NameList::kNamesMax; ++i) EXPECT_EQ(*list.at(i), std::to_string(i - 2));
  EXPECT_EQ(list.at(NameList::kNamesMax), nullptr);
}

}  // namespace rrdma::name_list_test
