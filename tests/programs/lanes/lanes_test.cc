// A process with several lanes: each has an engine, a lock, links, a slot and a thread of its own, and all
// share one daemon client. Two lanes of one process are connected to each other like two processes, and
// exchange messages both ways.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/test_surroundings.h"
#include "host/clock.h"
#include "host/device_links.h"
#include "host/interfaces.h"
#include "host/netlink_device.h"
#include "nic/lane/lane.h"
#include "nic/process/lanes.h"
#include "nic/process/passage.h"
#include "nic/process/process_control.h"
#include "objects/completion_queue.h"

namespace rrdma::nic::lanes_test {

constexpr std::uint32_t kMessageOctets = 3000;
constexpr int kMessages = 40;
constexpr char kOfA = 'a', kOfB = 'b';

// One lane with a QP, and memory to send from and to receive into.
class Station {
 public:
  Station(std::unique_ptr<Lane> lane, objects::MemoryTable& memory, char fill)
      : lane_(std::move(lane)), memory_(memory), buffer_(2 * kMessageOctets, fill) {
    const std::lock_guard lock(lane_->mutex());
    region_ = memory_
                  .register_region({.pd = &pd_,
                                    .host = reinterpret_cast<std::uint8_t*>(buffer_.data()),
                                    .length = buffer_.size(),
                                    .address = reinterpret_cast<std::uint64_t>(buffer_.data()),
                                    .access = objects::kLocalWrite})
                  .value();
    const transport::QpInit init{.pd = &pd_,
                                 .send_cq = &cq_,
                                 .receive_cq = &cq_,
                                 .send_entries = 16,
                                 .receive_entries = 16,
                                 .signal_all = true};
    qp_ = &lane_->engine().create_qp(init, lane_->allocate_qpn().value());
  }
  ~Station() {
    const std::lock_guard lock(lane_->mutex());
    lane_->engine().destroy_qp(*qp_);
    EXPECT_TRUE(memory_.deregister(*region_).ok());
  }

  [[nodiscard]] Lane& lane() { return *lane_; }
  [[nodiscard]] wire::Qpn qpn() const { return qp_->qpn; }
  [[nodiscard]] std::uint8_t link() const { return qp_->path.link; }
  [[nodiscard]] char last_received() const { return buffer_.back(); }

  void connect(const host::Device& device, const wire::Gid& gid, std::uint32_t gid_index, wire::Qpn peer) {
    using namespace transport;
    const auto path = lane_->resolve(
        device, {.remote = gid, .local_gid_index = gid_index, .local_qpn = qpn(), .remote_qpn = peer});
    ASSERT_TRUE(path.ok()) << path.error().sentence;
    QpAttributes to;
    to.path = *path;
    to.path_mtu = 3;
    to.destination = peer;
    to.timeout = 14;
    to.retry_count = 7;
    to.rnr_retry = 7;
    to.min_rnr_timer = 1;
    step(QpState::kInit, to, kAttrPKeyIndex | kAttrPort | kAttrAccessFlags);
    step(QpState::kReadyToReceive, to,
         kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn | kAttrMaxDestinationReads |
             kAttrMinRnrTimer);
    step(QpState::kReadyToSend, to,
         kAttrSendPsn | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads);
  }
  void post_receive() {
    const objects::Sge into = sge(kMessageOctets);
    const std::lock_guard lock(lane_->mutex());
    ASSERT_EQ(lane_->engine().post_receive(*qp_, 1, {&into, 1}, host::now()), transport::PostError::kNone);
  }
  void post_send() {
    const objects::Sge from = sge(0);
    transport::SendRequest request;
    request.entry.opcode = objects::SendOpcode::kSend;
    request.list = {&from, 1};
    const std::lock_guard lock(lane_->mutex());
    const Instant now = lane_->now();
    ASSERT_EQ(lane_->engine().post_send(*qp_, request, now), transport::PostError::kNone);
    lane_->transmit(now);
  }
  // Waits for one completion, either by polling or by relying on the lane's thread.
  void await_completion(bool polls) {
    objects::Completion completion;
    ASSERT_TRUE(daemon::eventually(
        [&] {
          if (polls) lane_->poll();
          return cq_.poll({&completion, 1}) == 1;
        },
        20'000));
    ASSERT_EQ(completion.status, objects::Status::kSuccess);
  }

 private:
  void step(transport::QpState state, transport::QpAttributes to, std::uint32_t mask) {
    to.state = state;
    const std::lock_guard lock(lane_->mutex());
    const auto changed = lane_->engine().modify_qp(*qp_, to, mask | transport::kAttrState, host::now());
    ASSERT_TRUE(changed.ok());
  }
  [[nodiscard]] objects::Sge sge(std::size_t offset) const {
    return {reinterpret_cast<std::uint64_t>(buffer_.data() + offset), kMessageOctets, {region_->key}};
  }

  std::unique_ptr<Lane> lane_;
  objects::MemoryTable& memory_;
  std::vector<char> buffer_;
  objects::ProtectionDomain pd_;
  objects::CompletionQueue cq_{64, nullptr};
  objects::MemoryRegion* region_ = nullptr;
  transport::QueuePair* qp_ = nullptr;
};

void exchange(LinkChoice link, bool polls) {
  Settings settings;
  settings.link = link;
  auto control = ProcessControl::connect(settings, "rrdma0 on lo");
  ASSERT_TRUE(control.ok()) << control.error().sentence;
  const auto interfaces = host::read_interfaces();
  ASSERT_TRUE(interfaces.ok()) << interfaces.error().sentence;
  const auto placements = host::place_devices(*interfaces, {}, "lo");
  ASSERT_FALSE(placements.empty());
  const host::NetlinkDevice device(host::identify(*placements.front().interface, 0), *interfaces);
  const host::GidEntry gid = device.gids().front();

  objects::MemoryTable memory(1);
  std::vector<std::unique_ptr<Station>> stations;
  for (const char fill : {kOfA, kOfB}) {
    auto lane = Lane::open(settings, (*control)->daemon(),
                           {.name = "rrdma0 on lo", .index = placements.front().interface->index}, memory,
                           stations.empty());
    ASSERT_TRUE(lane.ok()) << lane.error().sentence;
    (*control)->add(**lane);
    // The thread of the first lane serves the process.
    const auto started = stations.empty() ? (*lane)->start((*control)->descriptors(),
                                                           [one = control->get()] { one->handle(); })
                                          : (*lane)->start({}, [] {});
    ASSERT_TRUE(started.ok()) << started.error().sentence;
    stations.push_back(std::make_unique<Station>(std::move(*lane), memory, fill));
  }
  Station& a = *stations[0];
  Station& b = *stations[1];
  EXPECT_NE(a.lane().slot().number(), b.lane().slot().number());
  a.connect(device, gid.gid, gid.index, b.qpn());
  b.connect(device, gid.gid, gid.index, a.qpn());
  EXPECT_EQ(a.link(), link == LinkChoice::kUdp ? kUdpLink : kShmLink);
  EXPECT_EQ(a.link(), b.link());
  for (int i = 0; i < kMessages && !testing::Test::HasFailure(); ++i) {
    Station& from = i % 2 == 0 ? a : b;
    Station& to = i % 2 == 0 ? b : a;
    to.post_receive();
    from.post_send();
    to.await_completion(polls);
    from.await_completion(polls);
  }
  EXPECT_EQ(a.last_received(), kOfB);
  EXPECT_EQ(b.last_received(), kOfA);
  for (const auto& station : stations) (*control)->remove(station->lane());
}

// The lanes of a process with these settings, and completion queues for them.
struct House {
  explicit House(Settings with) : settings(std::move(with)) {
    auto connected = ProcessControl::connect(settings, "rrdma0 on lo");
    control = std::move(connected.value());
    auto opened = Lanes::open(settings, *control, {.name = "rrdma0 on lo", .index = 1});
    lanes = std::move(opened.value());
  }
  struct Queue {
    objects::CompletionQueue queue{4, nullptr};
    LanesOfQueue lanes{queue};
  };
  Settings settings;
  std::unique_ptr<ProcessControl> control;
  std::unique_ptr<Lanes> lanes;
};

Settings with_lanes(std::uint32_t count) {
  Settings settings;
  settings.lanes = count;
  return settings;
}

TEST(Lanes, AQpGoesWhereItsQueuesAre) {
  daemon::in_own_network([] {
    House house(with_lanes(3));
    House::Queue queues[4], both[2];
    Lane* of[4];
    for (int i = 0; i < 4; ++i)
      of[i] = &house.lanes->assign({.send = &queues[i].lanes, .receive = &queues[i].lanes, .free = true});
    EXPECT_EQ(of[0], &house.lanes->first());
    EXPECT_NE(of[1], of[0]);
    EXPECT_NE(of[2], of[0]);
    EXPECT_NE(of[2], of[1]);
    EXPECT_EQ(of[3], of[0]) << "no more than three lanes; each has one queue";
    // The next QP of a queue, and one whose other queue is new.
    EXPECT_EQ(&house.lanes->assign({.send = &queues[1].lanes, .receive = &queues[1].lanes, .free = true}),
              of[1]);
    EXPECT_EQ(&house.lanes->assign({.send = &both[0].lanes, .receive = &queues[2].lanes, .free = true}),
              of[2]);
    EXPECT_EQ(both[0].lanes.first(), of[2]);
    // Queues of two lanes: the send queue decides, and the other queue then has two lanes.
    EXPECT_EQ(&house.lanes->assign({.send = &queues[1].lanes, .receive = &queues[2].lanes, .free = true}),
              of[1]);
    EXPECT_TRUE(queues[2].lanes.contains(*of[1]));
    EXPECT_TRUE(queues[2].lanes.contains(*of[2]));
    // QPs that must be in the first lane are there, whatever their queues.
    EXPECT_EQ(&house.lanes->assign({.send = &queues[2].lanes}), of[0]);
  });
}

TEST(Lanes, NumbersAreOfTheirLane) {
  daemon::in_own_network([] {
    House house(with_lanes(2));
    House::Queue queues[2];
    for (House::Queue& queue : queues) {
      Lane& lane = house.lanes->assign({.send = &queue.lanes, .free = true});
      const std::lock_guard lock(lane.mutex());
      EXPECT_EQ(&house.lanes->of(lane.allocate_qpn().value()), &lane);
    }
    EXPECT_EQ(&house.lanes->of(wire::Qpn(0xfffffe)), &house.lanes->first());
    // If a lane has no QPN left, the others are tried.
    EXPECT_EQ(house.lanes->assign_number({.send = &queues[0].lanes, .free = true}, 1),
              queues[1].lanes.first());
    EXPECT_EQ(house.lanes->assign_number({.send = &queues[0].lanes, .free = true}, 2), nullptr);
    EXPECT_EQ(house.lanes->assign_number({.send = &queues[0].lanes}, 1), nullptr);
  });
}

TEST(Lanes, ALaneWhoseQueuesAreGoneIsTakenAgain) {
  daemon::in_own_network([] {
    House house(with_lanes(8));
    for (int i = 0; i < 20; ++i) {
      House::Queue queue;
      EXPECT_EQ(&house.lanes->assign({.send = &queue.lanes, .free = true}), &house.lanes->first());
      house.lanes->release(queue.lanes);
    }
    int count = 0;
    house.lanes->for_each([&](Lane&) { ++count; });
    EXPECT_EQ(count, 1);
  });
}

TEST(Lanes, AsManyAsAllowed) {
  Settings settings;
  EXPECT_GE(lanes_allowed(settings), 1u);
  EXPECT_LE(lanes_allowed(settings), kLanesMax);
  settings.lanes = 3;
  EXPECT_EQ(lanes_allowed(settings), 3u);
  settings.lanes = 1000;
  EXPECT_EQ(lanes_allowed(settings), kLanesMax);
  settings.capture_file = "file.pcapng";
  EXPECT_EQ(lanes_allowed(settings), 1u) << "two would write it";
}

// Takes all locks at once, from several threads, beside holders of a single lock.
TEST(Lanes, AllLocksAtOnce) {
  daemon::in_own_network([] {
    House house(with_lanes(3));
    House::Queue queues[3];
    for (House::Queue& queue : queues) (void)house.lanes->assign({.send = &queue.lanes, .free = true});
    int guarded[3] = {};
    int all = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&guarded, i, lane = queues[i].lanes.first()] {
        for (int k = 0; k < 5000; ++k) {
          const std::lock_guard lock(lane->mutex());
          ++guarded[i];
        }
      });
      threads.emplace_back([&] {
        for (int k = 0; k < 2000; ++k) {
          const std::lock_guard lock(*house.lanes);
          for (int& one : guarded) ++one;
          ++all;
        }
        house.lanes->pass_through();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(all, 6000);
    for (const int one : guarded) EXPECT_EQ(one, 11000);
  });
}

// One lane is in the middle of an access when another revokes a window: a later poll waits for it, once.
TEST(Lanes, WhatWasRevokedIsSeenWhenEveryLaneHasPassed) {
  daemon::in_own_network([] {
    House house(with_lanes(2));
    House::Queue queues[2];
    for (House::Queue& queue : queues) (void)house.lanes->assign({.send = &queue.lanes, .free = true});
    objects::ProtectionDomain pd;
    std::uint8_t octets[64] = {};
    objects::MemoryTable& table = house.lanes->memory();
    objects::MemoryRegion* region = nullptr;
    objects::MemoryWindow* window = nullptr;
    const auto bind = [&](std::uint64_t length) {
      const std::lock_guard lock(queues[0].lanes.first()->mutex());
      const auto cause = table.bind_window(*window, region, reinterpret_cast<std::uintptr_t>(octets), length,
                                           objects::kRemoteRead, window->key + 1, wire::Qpn(1));
      EXPECT_EQ(cause, objects::Cause::kNone);
    };
    {
      const std::lock_guard all(*house.lanes);
      region = table
                   .register_region({.pd = &pd,
                                     .host = octets,
                                     .length = sizeof octets,
                                     .address = reinterpret_cast<std::uintptr_t>(octets),
                                     .access = objects::kRemoteRead | objects::kWindowBind})
                   .value();
      window = table.allocate_window(pd, objects::WindowType::kType1).value();
    }
    Passage passage(*house.lanes);
    LaneLock consumer;
    bind(64);
    EXPECT_FALSE(passage.is_due()) << "nothing was taken away";
    queues[1].lanes.first()->mutex().lock();
    bind(0);
    EXPECT_TRUE(passage.is_due());
    std::atomic<bool> passed{false};
    std::thread poller([&] {
      passage.lock(consumer);
      passed = true;
      consumer.unlock();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(passed) << "the other lane is at it still";
    queues[1].lanes.first()->mutex().unlock();
    poller.join();
    EXPECT_FALSE(passage.is_due());
    const std::lock_guard all(*house.lanes);
    table.free_window(*window);
    EXPECT_TRUE(table.deregister(*region).ok());
  });
}

TEST(Lanes, TwoOfOneProcessTalkThroughSharedMemory) {
  daemon::in_own_network([] { exchange(LinkChoice::kShm, true); });
}

TEST(Lanes, TwoOfOneProcessTalkByUdp) {
  daemon::in_own_network([] { exchange(LinkChoice::kUdp, true); });
}

TEST(Lanes, EachThreadServesItsOwn) {
  daemon::in_own_network([] { exchange(LinkChoice::kShm, false); });
  daemon::in_own_network([] { exchange(LinkChoice::kUdp, false); });
}

}  // namespace rrdma::nic::lanes_test
