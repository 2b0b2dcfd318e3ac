// Compares QpTable with std::map, with QPNs in sequence as processes allocate them.
#include "transport/qp/qp_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/prng.h"
#include "transport/qp/queue_pair.h"

namespace rrdma::transport::qp_table_test {

TEST(QpTable, HoldsWhatAMapWouldHold) {
  Prng prng(5);
  QpTable table;
  std::map<std::uint32_t, QueuePair*> expected;
  std::deque<QueuePair> pairs;
  std::uint32_t next = 0x10000;
  for (int step = 0; step < 20'000; ++step) {
    if (prng.below(3) != 0 || expected.empty()) {
      QueuePair& qp = pairs.emplace_back(1, 1, 0, 1, 1);
      table.insert(wire::Qpn(next), qp);
      expected[next++] = &qp;
    } else {
      auto gone = expected.lower_bound(0x10000 + static_cast<std::uint32_t>(prng.below(next - 0x10000)));
      if (gone == expected.end()) gone = expected.begin();
      table.erase(wire::Qpn(gone->first));
      expected.erase(gone);
    }
  }
  ASSERT_EQ(table.size(), expected.size());
  for (std::uint32_t qpn = 0x10000; qpn < next; ++qpn) {
    const auto found = expected.find(qpn);
    ASSERT_EQ(table.find(wire::Qpn(qpn)), found == expected.end() ? nullptr : found->second);
  }
}

// If all entries formed one run, each erase would walk to its end, and 40,000 would take minutes.
TEST(QpTable, ForgetsManyInSequenceQuickly) {
  constexpr std::uint32_t kQps = 40'000;
  QpTable table;
  QueuePair qp(1, 1, 0, 1, 1);
  for (std::uint32_t i = 0; i < kQps; ++i) table.insert(wire::Qpn(i), qp);
  EXPECT_LE(table.longest_run(), 64u);
  for (std::uint32_t i = 0; i < kQps; ++i) table.erase(wire::Qpn(i));
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace rrdma::transport::qp_table_test
