// A process can have several lanes: each with an engine, a lock, links, a slot and a thread of its own, all with one
// daemon's client. Two lanes of one process are connected to each other as two processes would be, and messages go both ways.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/test_surroundings.h"
#include "host/clock.h"
#include "host/device_links.h"
#include "host/interfaces.h"
#include "host/netlink_device.h"
#include "nic/host_lane.h"
#include "nic/process_control.h"
#include "objects/completion_queue.h"

namespace rrdma::nic {
namespace {

constexpr std::uint32_t kMessageOctets = 3000;
constexpr int kMessages = 40;
constexpr char kOfA = 'a', kOfB = 'b';

// One lane with a QP, and memory to send from and to receive into.
class Station {
 public:
  Station(std::unique_ptr<HostLane> lane, char fill)
      : lane_(std::move(lane)), buffer_(2 * kMessageOctets, fill) {
    const std::lock_guard lock(lane_->mutex());
    region_ = lane_->memory()
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
    EXPECT_TRUE(lane_->memory().deregister(*region_).ok());
  }

  [[nodiscard]] HostLane& lane() { return *lane_; }
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
  // Waits for one completion: polling, or leaving it to the lane's thread.
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

  std::unique_ptr<HostLane> lane_;
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

  std::vector<std::unique_ptr<Station>> stations;
  for (const char fill : {kOfA, kOfB}) {
    auto lane = HostLane::open(settings, (*control)->daemon(),
                               {.name = "rrdma0 on lo", .index = placements.front().interface->index});
    ASSERT_TRUE(lane.ok()) << lane.error().sentence;
    (*control)->add(**lane);
    // What is the process's is served by the thread of the first.
    const auto started = stations.empty() ? (*lane)->start((*control)->descriptors(),
                                                           [one = control->get()] { one->handle(); })
                                          : (*lane)->start({}, [] {});
    ASSERT_TRUE(started.ok()) << started.error().sentence;
    stations.push_back(std::make_unique<Station>(std::move(*lane), fill));
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

}  // namespace
}  // namespace rrdma::nic
