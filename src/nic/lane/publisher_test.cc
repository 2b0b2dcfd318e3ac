#include "nic/lane/publisher.h"

#include <gtest/gtest.h>

#include <set>

namespace rrdma::nic::publisher_test {

struct Listener : transport::EventSink {
  Publisher* publisher = nullptr;
  void on_qp_event(transport::QueuePair&, transport::QpEvent) override {}
  void on_qp_changed(transport::QueuePair& qp, bool destroyed) override {
    publisher->handle_qp_changed(qp, destroyed);
  }
};

control::ProcessPage new_page() {
  auto made = control::ProcessPage::create();
  return std::move(*made);
}

class PublisherTest : public ::testing::Test {
 protected:
  PublisherTest() : page_(new_page()), publisher_(page_, &memory_) { listener_.publisher = &publisher_; }
  ~PublisherTest() override {
    for (transport::QueuePair* qp : qps_) engine_.destroy_qp(*qp);
  }

  transport::QueuePair& add(objects::CompletionQueue& queue, std::uint16_t device = 0) {
    const transport::QpInit init{.pd = &pd_,
                                 .send_cq = &queue,
                                 .receive_cq = &queue,
                                 .send_entries = 8,
                                 .receive_entries = 16,
                                 .device = device};
    auto& qp = engine_.create_qp(init, wire::Qpn(static_cast<std::uint32_t>(0x30000 + qps_.size())));
    qps_.push_back(&qp);
    publisher_.handle_qp_changed(qp, false);
    return qp;
  }
  void remove(std::size_t place) {
    engine_.destroy_qp(*qps_[place]);
    qps_.erase(qps_.begin() + static_cast<std::ptrdiff_t>(place));
  }
  // Repeats until it does not ask to be called again at that time.
  int publish_all(Instant now) {
    int calls = 1;
    while (publisher_.publish(engine_, {}, now) == now) ++calls;
    return calls;
  }
  [[nodiscard]] std::vector<control::QpSnapshot> shown() const {
    return control::ProcessPageView::open(page_.fd())->queue_pairs();
  }
  [[nodiscard]] std::uint64_t counter(std::string_view name) const {
    for (const auto& one : control::ProcessPageView::open(page_.fd())->counters())
      if (one.name == name) return one.value;
    return ~std::uint64_t{0};
  }

  [[nodiscard]] std::uint64_t counter_of(std::string_view device, std::string_view name) const {
    const auto view = control::ProcessPageView::open(page_.fd());
    for (const auto& one : view->devices()) {
      for (const auto& part : one.counters)
        if (one.name == device && part.name == name) return part.value;
    }
    return ~std::uint64_t{0};
  }

  control::ProcessPage page_;
  objects::MemoryTable memory_{1};
  Publisher publisher_;
  Listener listener_;
  transport::Engine engine_{{}, memory_, listener_};
  objects::ProtectionDomain pd_;
  objects::CompletionQueue queue_{64, nullptr}, other_{64, nullptr};
  std::vector<transport::QueuePair*> qps_;
};

constexpr Instant at(std::int64_t ms) { return Instant{milliseconds(1000 + ms).ns}; }

TEST_F(PublisherTest, TellsWhatAQueuePairHolds) {
  transport::QueuePair& qp = add(queue_);
  ASSERT_TRUE(qp.receive_queue.post(1, {}));
  queue_.push({});
  qp.req.una = wire::Psn(7);
  qp.req.sent = wire::Psn(9);
  publish_all(at(0));
  const auto rows = shown();
  ASSERT_EQ(rows.size(), 1u);
  const control::QpLevels& levels = rows[0].levels;
  EXPECT_EQ(levels.send_capacity, qp.send_queue.capacity());
  EXPECT_EQ(levels.send_queued, 0u);
  EXPECT_EQ(levels.receive_posted, 1u);
  EXPECT_EQ(levels.oldest_psn, 7u);
  EXPECT_EQ(levels.next_psn, 9u);
  EXPECT_EQ(levels.completions_waiting, 1u) << "one queue for both is counted once";
  EXPECT_EQ(levels.send_cq, levels.receive_cq);
}

TEST_F(PublisherTest, NumbersCompletionQueuesThatAreInUse) {
  add(queue_);
  add(queue_);
  add(other_);
  publish_all(at(0));
  std::set<std::uint16_t> numbers;
  for (const auto& row : shown()) numbers.insert(row.levels.send_cq);
  EXPECT_EQ(numbers.size(), 2u);
  EXPECT_FALSE(numbers.contains(0));
  EXPECT_EQ(counter("completion_queues"), 2u);
  remove(2);
  publish_all(at(200));
  EXPECT_EQ(counter("completion_queues"), 1u);
}

TEST_F(PublisherTest, PublishesManyByAndBy) {
  for (int i = 0; i < 1000; ++i) add(queue_).messages_sent = 1;
  EXPECT_EQ(publish_all(at(0)), 16) << "64 at once: nobody waits long for the lock";
  for (const auto& row : shown()) EXPECT_EQ(row.counters[0], 1u);
  EXPECT_EQ(publisher_.publish(engine_, {}, at(50)), at(100)) << "too soon for another round";
}

TEST_F(PublisherTest, LeavesNobodyOutWhenOneIsDestroyedMeanwhile) {
  for (int i = 0; i < 600; ++i) add(queue_).messages_sent = 1;
  EXPECT_EQ(publisher_.publish(engine_, {}, at(0)), at(0));
  remove(3);  // the last row, not yet published, takes its place
  publish_all(at(0));
  const auto rows = shown();
  EXPECT_EQ(rows.size(), 599u);
  for (const auto& row : rows) EXPECT_EQ(row.counters[0], 1u) << row.fields.qpn;
}

TEST_F(PublisherTest, KeepsDevicesApart) {
  const auto first = static_cast<std::uint16_t>(page_.add_device("rrdma0"));
  const auto second = static_cast<std::uint16_t>(page_.add_device("rrdma1"));
  add(queue_, first).counters->octets_sent = 100;
  add(queue_, second).counters->octets_sent = 1;
  add(queue_).counters->octets_sent = 10;  // of no particular device
  publish_all(at(0));
  EXPECT_EQ(counter_of("rrdma0", "octets_sent"), 100u);
  EXPECT_EQ(counter_of("rrdma1", "octets_sent"), 1u);
  EXPECT_EQ(counter("octets_sent"), 111u) << "the process has all";
  EXPECT_EQ(counter_of("rrdma0", "memory_keys"), ~std::uint64_t{0}) << "which device has it is not known";
  ASSERT_EQ(shown().size(), 3u);
  EXPECT_EQ(shown()[1].fields.device, second);
}

TEST_F(PublisherTest, ADeviceKeepsWhatADestroyedQueuePairCarried) {
  const auto device = static_cast<std::uint16_t>(page_.add_device("rrdma0"));
  add(queue_, device).counters->messages_sent += 5;
  publish_all(at(0));
  qps_[0]->counters->messages_sent += 2;
  remove(0);
  publish_all(at(200));
  EXPECT_EQ(counter_of("rrdma0", "messages_sent"), 7u);
  add(queue_, device).counters->messages_sent += 1;
  publisher_.publish_sums(engine_, {});
  EXPECT_EQ(counter_of("rrdma0", "messages_sent"), 8u) << "without waiting for its time";
}

TEST_F(PublisherTest, LanesAddToTheCountersOfOneDevice) {
  const auto device = static_cast<std::uint16_t>(page_.add_device("rrdma0"));
  Publisher other(page_, &memory_);
  transport::Engine another{{}, memory_, listener_};
  listener_.publisher = &other;
  const transport::QpInit init{.pd = &pd_, .send_cq = &queue_, .receive_cq = &queue_, .device = device};
  another.create_qp(init, wire::Qpn(0x40000)).counters->packets_sent = 3;
  other.publish_sums(another, {});
  another.destroy_qp(*another.find_qp(wire::Qpn(0x40000)));
  listener_.publisher = &publisher_;
  add(queue_, device).counters->packets_sent = 4;
  publish_all(at(0));
  EXPECT_EQ(counter_of("rrdma0", "packets_sent"), 7u);
}

}  // namespace rrdma::nic::publisher_test
