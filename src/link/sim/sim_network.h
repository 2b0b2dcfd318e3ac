// SimNetwork: a network in one process and in virtual time. Each host is connected to one switch by a cable
// with its own properties in each direction. Real RoCE v2 frames travel on it, so the ICRC must find flipped
// bits.
//
//   sender ── uplink: rate, queue (full: reserve fails) ──► faults, partitions, latency ──► switch
//   switch ── downlink: rate, queue (full: dropped; long: marked) ──► receive buffer (full: dropped) ──► poll
//
// One seed decides everything: decisions depend on no clock, no floating point and no object address.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "base/octets.h"
#include "base/prng.h"
#include "link/burst_loss.h"
#include "link/fault_spec.h"
#include "link/link.h"
#include "link/sim/event_heap.h"
#include "wire/gid.h"

namespace rrdma::link {

using HostIndex = std::uint32_t;

struct CableProperties {
  std::uint64_t megabits_per_second = 100'000;
  Duration latency = microseconds(1);
  Duration jitter;  // uniform in 0..jitter on top; never reorders
  std::uint32_t queue_octets = 1024 * 1024;
  std::uint32_t ecn_octets = 0;  // mark packets that arrive at a longer queue; 0: never
};

struct HostProperties {
  CableProperties up;
  CableProperties down;
  std::uint32_t receive_octets = 4 * 1024 * 1024;  // like a socket's
};

// The fate of a packet. The first ones are injected faults.
enum class Fate : std::uint8_t {
  kDropped,
  kDuplicated,
  kReordered,
  kCorrupted,
  kDelayed,
  kMarked,  // congestion experienced
  kPartitioned,
  kFiltered,   // by a test's filter
  kQueueFull,  // downlink
  kReceiveFull,
  kNoRoom,  // uplink: a frame was requested and not given
  kNoRoute,
  kFrameRefused,  // invalid Ethernet, IP or UDP header
  kIcrcRefused,
  kTransportRefused,
  kDelivered,
};
inline constexpr std::size_t kFateCount = static_cast<std::size_t>(Fate::kDelivered) + 1;
std::string_view describe(Fate fate);

struct PacketView {
  HostIndex from = 0;
  HostIndex to = 0;
  Octets frame;  // from the Ethernet header to the end of the ICRC
};

// Sees every packet that is sent, delivered or lost. Its installer owns it.
class PacketObserver {
 public:
  virtual ~PacketObserver() = default;
  virtual void on_sent(const PacketView& packet, Instant now) = 0;
  virtual void on_fate(const PacketView& packet, Fate fate, Instant now) = 0;
};

class SimNetwork;

// One host's end of the network.
class SimLink final : public Link {
 public:
  static constexpr std::size_t kBurstMax = 64;

  SimLink(SimNetwork& network, HostIndex host) : network_(network), host_(host) {
    pending_.reserve(kBurstMax);
  }

  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;
  void flush(Instant now) override;
  std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max) override;
  std::span<const LinkCounter> counters() override;

  [[nodiscard]] HostIndex host() const { return host_; }
  [[nodiscard]] bool has_arrivals() const;
  // When reserve() may succeed again after a failure.
  [[nodiscard]] Instant room_at(Instant now) const;

 private:
  friend class SimNetwork;
  SimNetwork& network_;
  HostIndex host_;
  objects::Frame reserved_;
  std::vector<objects::Frame> pending_;
  std::uint32_t pending_octets_ = 0;
  Instant now_;  // of the last poll or flush: reserve() gets none
  std::array<LinkCounter, kFateCount> counters_{};
};

class SimNetwork {
 public:
  explicit SimNetwork(std::uint64_t seed);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  HostIndex add_host(const HostProperties& properties);
  [[nodiscard]] std::size_t host_count() const { return hosts_.size(); }
  SimLink& link(HostIndex host) { return *hosts_[host].link; }
  HostProperties& properties(HostIndex host) { return hosts_[host].properties; }

  // Every host has one address of each family.
  [[nodiscard]] static wire::Gid ipv4_gid(HostIndex host);
  [[nodiscard]] static wire::Gid ipv6_gid(HostIndex host);

  // Sets the faults of all packets, or of those from one host to another (these replace the former). A seed
  // in the first form restarts the network's random sequence.
  void set_faults(const FaultSpec& faults);
  void set_faults(HostIndex from, HostIndex to, const FaultSpec& faults);
  // No packet from `from` reaches `to` in [begin, end).
  void partition(HostIndex from, HostIndex to, Instant begin, Instant end);
  // Ends all faults and partitions; packets in flight arrive.
  void stop_faults();
  // Decides on every packet before all faults: false drops it. For tests that lose one specific packet.
  void set_filter(std::function<bool(const PacketView&, Instant)> filter) { filter_ = std::move(filter); }
  void set_observer(PacketObserver* observer) { observer_ = observer; }

  [[nodiscard]] Instant next_event() const { return events_.earliest(); }
  // Handles all events up to `now`.
  void advance(Instant now);
  // Hosts that have something to poll, each once, in order of arrival. The caller that wakes them clears the
  // list.
  std::vector<HostIndex>& arrivals() { return arrivals_; }

  // Puts a packet of other traffic than RoCE into the queue to a host. Returns its arrival, or nothing if the
  // queue is full.
  std::optional<Instant> cross(HostIndex to, std::uint32_t octets, Instant now);
  // Bytes that wait for the cable to a host.
  [[nodiscard]] std::uint64_t backlog(HostIndex to, Instant now) const;

  [[nodiscard]] std::uint64_t count(Fate fate) const { return fates_[static_cast<std::size_t>(fate)]; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::size_t in_flight() const { return flights_.size() - free_.size(); }
  // Packets that were delivered although a bit under the ICRC was flipped.
  [[nodiscard]] std::uint64_t corruption_missed() const { return corruption_missed_; }

 private:
  friend class SimLink;

  struct Flight {
    std::vector<std::uint8_t> octets;  // its memory is reused
    HostIndex from = 0;
    HostIndex to = 0;
    std::uint32_t payload_octets = 0;
    bool corrupted = false;
    bool must_be_refused = false;  // the ICRC covers a flipped bit
    bool at_switch = false;        // next event: entering the downlink; otherwise: arrival
  };
  struct Host {
    HostProperties properties;
    std::unique_ptr<SimLink> link;
    Instant up_free;  // when the uplink has sent everything
    Instant down_free;
    Instant slow_free;  // the same for the cable that a fault makes slow
    BurstLoss loss;
    Instant last_at_switch;
    Instant last_arrival;
    std::deque<std::uint32_t> received;  // flights that wait to be polled
    std::uint32_t received_octets = 0;
    bool listed = false;  // in arrivals_
    std::array<std::uint64_t, kFateCount> fates{};
  };
  struct Partition {
    HostIndex from, to;
    Instant begin, end;
  };
  struct PairFaults {
    HostIndex from, to;
    FaultSpec faults;
  };

  std::uint32_t take_flight();
  void release(std::uint32_t flight);
  void send(HostIndex from, const objects::Frame& frame, Instant now);
  void travel(std::uint32_t flight, Instant departed, const FaultSpec& faults);
  void enter_downlink(std::uint32_t flight, Instant now);
  void arrive(std::uint32_t flight, Instant now);
  [[nodiscard]] bool loses(const Flight& flight, const FaultSpec& faults);
  [[nodiscard]] std::optional<Instant> cross_slow_cable(const Flight& flight, Instant departed,
                                                        const FaultSpec& faults);
  void corrupt(Flight& flight);
  static void flip(Flight& flight, std::size_t bit);
  void tell(const Flight& flight, Fate fate, Instant now);
  [[nodiscard]] const FaultSpec& faults_between(HostIndex from, HostIndex to) const;
  [[nodiscard]] bool partitioned(HostIndex from, HostIndex to, Instant at) const;
  bool deliver(std::uint32_t flight, Receiver& receiver, Instant now);

  std::uint64_t seed_;
  Prng prng_;
  std::vector<Host> hosts_;
  FaultSpec faults_;
  std::vector<PairFaults> pair_faults_;
  std::vector<Partition> partitions_;
  std::function<bool(const PacketView&, Instant)> filter_;
  PacketObserver* observer_ = nullptr;
  EventHeap<std::uint32_t> events_;
  std::deque<Flight> flights_;  // a deque, so that flights do not move when others are added
  std::vector<std::uint32_t> free_;
  std::vector<HostIndex> arrivals_;
  std::array<std::uint64_t, kFateCount> fates_{};
  std::uint64_t sent_ = 0;
  std::uint64_t corruption_missed_ = 0;
};

}  // namespace rrdma::link
