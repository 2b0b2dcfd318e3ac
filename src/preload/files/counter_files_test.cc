#include "preload/files/counter_files.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rrdma::files::counter_files_test {

const std::vector<control::NamedCounter> kCounted = {
    {"octets_sent", 4002}, {"packets_sent", 7}, {"duplicates", 3}, {"ack_timeouts", 2}};

TEST(CounterFiles, SayWhatTheKernelsWould) {
  EXPECT_EQ(counter_line("counters/port_xmit_data", kCounted), "1000\n") << "words of four octets";
  EXPECT_EQ(counter_line("counters/port_xmit_packets", kCounted), "7\n");
  EXPECT_EQ(counter_line("counters/port_rcv_packets", kCounted), "0\n");
  EXPECT_EQ(counter_line("counters/symbol_error", kCounted), "0\n");
  EXPECT_EQ(counter_line("hw_counters/duplicate_request", kCounted), "3\n");
  EXPECT_EQ(counter_line("hw_counters/local_ack_timeout_err", kCounted), "2\n");
  EXPECT_EQ(counter_line("hw_counters/lifespan", {}), "100\n");
}

TEST(CounterFiles, AreNotThereWhereNobodyKnows) {
  const auto paths = counter_paths();
  const auto has = [&](const char* path) {
    return std::find(paths.begin(), paths.end(), path) != paths.end();
  };
  EXPECT_TRUE(has("counters/port_rcv_data"));
  EXPECT_FALSE(has("counters/port_xmit_wait"));
  EXPECT_FALSE(has("hw_counters/send_err"));
}

TEST(CounterFiles, AreFoundByTheirPaths) {
  const auto file = counter_place("/sys/class/infiniband/rrdma1/ports/1/counters/port_xmit_data");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->device, "rrdma1");
  EXPECT_EQ(file->port, "/sys/class/infiniband/rrdma1/ports/1/");
  EXPECT_EQ(file->content, "counters/port_xmit_data");
  const auto folder = counter_place("/sys/devices/virtual/infiniband/rrdma0/ports/1/hw_counters/");
  ASSERT_TRUE(folder);
  EXPECT_EQ(folder->content, "hw_counters");
  EXPECT_FALSE(counter_place("/sys/class/infiniband/rrdma1/ports/1/state"));
  EXPECT_FALSE(counter_place("/sys/class/infiniband/rrdma1/ports/1/countersign"));
  EXPECT_FALSE(counter_place("/sys/class/infiniband/rrdma1"));
}

}  // namespace rrdma::files::counter_files_test
