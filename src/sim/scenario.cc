#include "sim/scenario.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "base/assert.h"
#include "sim/cubic_flow.h"
#include "sim/world.h"

namespace rrdma::sim {
namespace {

using transport::QpState;

constexpr std::uint32_t kMessageOctets = 64 * 1024;
constexpr std::uint32_t kOutstanding = 16;
constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kSlices = 100;
constexpr std::uint32_t kSamplesOfSlice = 16;
// Overhead of a full packet on the cable: preamble to gap, IPv4, UDP, BTH, ICRC.
constexpr std::uint32_t kOverheadOctets = 24 + 14 + 20 + 8 + 12 + 4;

// One end of a flow, with memory and a QP.
struct End {
  End(World& world, Host& its_host)
      : host(its_host), queue(2 * kOutstanding, nullptr), memory(kMessageOctets) {
    region = host.memory
                 .register_region({.pd = &host.pd,
                                   .host = memory.data(),
                                   .length = memory.size(),
                                   .address = reinterpret_cast<std::uint64_t>(memory.data()),
                                   .access = objects::kLocalWrite | objects::kRemoteWrite})
                 .value();
    qp = &host.engine.create_qp({.pd = &host.pd,
                                 .send_cq = &queue,
                                 .receive_cq = &queue,
                                 .send_entries = kOutstanding,
                                 .receive_entries = 1,
                                 .signal_all = true},
                                host.fresh_qpn());
    now = world.now();
  }
  ~End() { host.engine.destroy_qp(*qp); }

  void connect(const End& other, std::uint8_t features) {
    using namespace transport;
    QpAttributes attributes;
    attributes.access_flags = objects::kRemoteWrite;
    attributes.path = host.path_to(other.host, false, qp->qpn, other.qp->qpn);
    attributes.path.features = features;
    attributes.path_mtu = kMtuCodeMax;
    attributes.destination = other.qp->qpn;
    attributes.timeout = 14;
    attributes.retry_count = attributes.rnr_retry = 7;
    go(attributes, QpState::kInit, kAttrPKeyIndex | kAttrPort | kAttrAccessFlags);
    go(attributes, QpState::kReadyToReceive,
       kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn | kAttrMaxDestinationReads |
           kAttrMinRnrTimer);
    go(attributes, QpState::kReadyToSend,
       kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSendPsn | kAttrMaxReads);
  }
  void go(transport::QpAttributes& attributes, QpState state, std::uint32_t mask) {
    attributes.state = state;
    const bool went = host.engine.modify_qp(*qp, attributes, transport::kAttrState | mask, now).ok();
    RRDMA_ASSERT(went);
  }

  Host& host;
  objects::CompletionQueue queue;
  std::vector<std::uint8_t> memory;
  objects::MemoryRegion* region = nullptr;
  transport::QueuePair* qp = nullptr;
  Instant now;
};

// Always has data to send.
class Source final : public Application {
 public:
  Source(World& world, Host& host, Host& sink) : near_(world, host), far_(world, sink) {}

  void start(std::uint8_t features) {
    near_.connect(far_, features);
    far_.connect(near_, features);
    near_.host.application = this;
  }
  void begin(Instant now) {
    for (std::uint32_t i = 0; i < kOutstanding; ++i) post(now);
    near_.host.wake(now);
  }
  bool on_turn(Host&, Instant now) override {
    objects::Completion completion;
    bool any = false;
    for (; near_.queue.poll({&completion, 1}) == 1; any = true) {
      if (completion.status == objects::Status::kSuccess) post(now);
    }
    return any;
  }
  [[nodiscard]] std::uint64_t octets() const { return far_.qp->octets_received; }

 private:
  void post(Instant now) {
    const objects::Sge list[] = {
        {reinterpret_cast<std::uint64_t>(near_.memory.data()), kMessageOctets, {near_.region->key}}};
    transport::SendRequest request;
    request.entry.opcode = objects::SendOpcode::kWrite;
    request.entry.remote_address = reinterpret_cast<std::uint64_t>(far_.memory.data());
    request.entry.rkey = {far_.region->key};
    request.list = list;
    (void)near_.host.engine.post_send(*near_.qp, request, now);
  }
  End near_, far_;
};

class Scenario {
 public:
  explicit Scenario(const ScenarioPlan& plan) : plan_(plan), world_(plan.seed) {
    HostConfig host;
    host.network.up.megabits_per_second = host.network.down.megabits_per_second = plan.megabits_per_second;
    host.network.up.latency = host.network.down.latency = plan.rtt / 4;
    host.network.down.queue_octets = plan.queue_octets;
    host.network.down.ecn_octets = plan.ecn ? plan.queue_octets / 4 : 0;
    host.engine.congestion = plan.congestion;
    host.engine.strict = plan.strict;
    Host& sink = world_.add_host(host);
    world_.network().set_faults(plan.faults);
    for (std::uint32_t i = 0; i < plan.flows; ++i) sources_.emplace_back(world_, world_.add_host(host), sink);
    for (std::uint32_t i = 0; i < plan.flows; ++i) {
      sources_[i].start(plan.strangers ? 0 : objects::kOwnFeatures);
      world_.at(Instant{} + plan.stagger * i, [this, i] { sources_[i].begin(world_.now()); });
    }
    for (std::uint32_t i = 0; i < plan.tcp_flows; ++i) {
      tcp_.emplace_back(world_, sink.index(), plan.megabits_per_second, plan.rtt,
                        Instant{} + plan.stagger * (plan.flows + i));
    }
    if (plan.pause.ns != 0) world_.at(Instant{} + plan.pause_every, [this] { pause_sink(); });
  }

  ScenarioReport run() {
    const std::size_t count = sources_.size() + tcp_.size();
    ScenarioReport report;
    report.slice = (plan_.settle + plan_.time) / kSlices;
    report.flows.resize(count);
    std::vector<std::uint64_t> before(count), settled(count);
    std::uint64_t samples = 0, sum = 0;
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      const bool counts = report.slice * slice >= plan_.settle;
      if (!counts || report.slice * slice < plan_.settle + report.slice)
        for (std::size_t i = 0; i < count; ++i) settled[i] = octets_of(i);
      for (std::uint32_t i = 1; i <= kSamplesOfSlice; ++i) {
        world_.run_until(Instant{} + report.slice * slice + report.slice * i / kSamplesOfSlice);
        const std::uint64_t queue = world_.network().backlog(0, world_.now());
        if (!counts) continue;
        ++samples;
        sum += queue;
        report.queue_most = std::max(report.queue_most, queue);
      }
      report.queue.push_back(world_.network().backlog(0, world_.now()));
      for (std::size_t i = 0; i < count; ++i) {
        report.flows[i].timeline.push_back(octets_of(i) - before[i]);
        before[i] = octets_of(i);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      report.flows[i].tcp = i >= sources_.size();
      report.flows[i].octets = before[i] - settled[i];
    }
    report.queue_mean = samples == 0 ? 0 : sum / samples;
    summarise(report);
    return report;
  }

 private:
  [[nodiscard]] std::uint64_t octets_of(std::size_t flow) const {
    return flow < sources_.size() ? sources_[flow].octets() : tcp_[flow - sources_.size()].octets();
  }

  void pause_sink() {
    world_.host(0).pause_until(world_.now() + plan_.pause);
    world_.at(world_.now() + plan_.pause_every, [this] { pause_sink(); });
  }

  void summarise(ScenarioReport& report) {
    double all = 0, tcp = 0, ours = 0, squares = 0;
    for (const ScenarioReport::Flow& flow : report.flows) {
      const auto octets = static_cast<double>(flow.octets);
      all += octets;
      (flow.tcp ? tcp : ours) += octets;
      if (!flow.tcp) squares += octets * octets;
    }
    const double cable =
        static_cast<double>(plan_.megabits_per_second) * 125'000 * kMtu / (kMtu + kOverheadOctets);
    const double counted = static_cast<double>(report.slice.ns * counted_slices(report)) / 1e9;
    report.utilisation = all / (cable * counted);
    report.fairness = squares == 0 ? 0 : ours * ours / (static_cast<double>(plan_.flows) * squares);
    report.tcp_share = all == 0 ? 0 : tcp / all;
    report.queue_drops = world_.network().count(link::Fate::kQueueFull);
    report.marks = world_.network().count(link::Fate::kMarked);
    for (std::size_t i = 0; i < world_.host_count(); ++i) {
      const transport::Counters& counters = world_.host(i).engine.counters();
      report.packets += counters.packets_sent;
      report.resent += counters.packets_resent;
      report.probes += counters.probes_sent;
    }
  }
  [[nodiscard]] std::int64_t counted_slices(const ScenarioReport& report) const {
    std::int64_t count = 0;
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) count += report.slice * slice >= plan_.settle;
    return count;
  }

  const ScenarioPlan plan_;
  World world_;
  std::deque<Source> sources_;
  std::deque<CubicFlow> tcp_;
};

}  // namespace

ScenarioReport run_scenario(const ScenarioPlan& plan) { return Scenario(plan).run(); }

}  // namespace rrdma::sim
