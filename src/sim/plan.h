// Plan: everything that a seed (or a command line) decides before a run: hosts and their cables, faults, the
// connections with their attributes, and the traffic on them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "link/fault_spec.h"
#include "sim/world.h"
#include "transport/qp/attributes.h"

namespace rrdma::sim {

// The operations of a workload, in the order of Mix.
enum class Operation : std::uint8_t {
  kSend,
  kSendImmediate,
  kSendInvalidate,
  kWrite,
  kWriteImmediate,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kFlush,
  kAtomicWrite,
  kLocalInvalidate,
  kBindWindow,
  // Pairs of requests that only make sense together.
  kWriteReadBack,  // READ back the data of the preceding WRITE
  kReadThenWrite,  // a fenced WRITE over the source of the preceding READ
  kReadThenSend,   // a fenced SEND of the data from the preceding READ
};
inline constexpr std::size_t kOperationCount = static_cast<std::size_t>(Operation::kReadThenSend) + 1;
using Mix = std::array<std::uint8_t, kOperationCount>;  // weights

// Deliberate errors of a workload. The oracle knows the status that each must end with.
enum class Provocation : std::uint8_t {
  kNone,
  kUnknownRemoteKey,
  kOtherDomainKey,
  kBeyondRegion,
  kNoRights,
  kMisalignedAtomic,
  kUnknownLocalKey,
  kBadReadSink,
  kStaleWindow,
  kBadInvalidate,
  kBadBind,
  kReadNotAllowed,  // max_rd_atomic is 0
  kSmallReceive,    // of the receiving side
  kBadReceiveKey,   // of the receiving side
  kModifyToError,
  kDestroy,
  kReset,
};
inline constexpr std::size_t kProvocationCount = static_cast<std::size_t>(Provocation::kReset) + 1;

struct TrafficPlan {
  transport::QpType type = transport::QpType::kRc;
  std::uint32_t host_a = 0;
  std::uint32_t host_b = 1;
  bool ipv6 = false;
  bool both_ways = true;
  std::uint8_t mtu_code = 3;
  std::uint8_t timeout = 12;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t max_reads = 4;
  std::uint8_t max_destination_reads = 4;
  std::uint32_t send_entries = 16;
  std::uint32_t receive_entries = 16;
  std::uint32_t sges = 4;
  std::uint32_t inline_octets = 128;
  bool signal_all = false;
  bool shared_receive = false;
  std::uint32_t psn_a = 0;
  std::uint32_t psn_b = 0;
  std::uint8_t features_a = 0;  // the features that side a knows of side b
  std::uint8_t features_b = 0;
  bool learns_late = false;       // long after traffic began
  std::uint32_t messages = 1000;  // posted by both sides together
  std::uint32_t octets_min = 0;
  std::uint32_t octets_max = 4096;
  Mix mix{};
  std::uint32_t starve_ppm = 0;  // turns in which no receive is posted
  std::uint32_t unsignaled_ppm = 300'000;
  std::uint32_t inline_ppm = 200'000;
  std::uint32_t fence_ppm = 50'000;
  std::uint32_t drain_ppm = 0;    // turns that take the send queue through SQD
  std::uint32_t provoke_ppm = 0;  // messages that are deliberate errors
  std::uint32_t burst_max = 4;    // messages posted in one turn
  Duration think_max = microseconds(20);
  Duration stagger_max;  // one side enters RTR and RTS up to this much later

  [[nodiscard]] Duration ack_timeout() const;  // 0: never
};

struct PartitionPlan {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Instant begin, end;
};
// Temporarily replaces the plan's faults.
struct FaultPhase {
  std::optional<std::uint32_t> from, to;  // none: all hosts
  Instant begin, end;
  link::FaultSpec faults;
};
struct PausePlan {
  std::uint32_t host = 0;
  Instant at;
  Duration time;
};

struct Plan {
  std::uint64_t seed = 1;
  std::vector<HostConfig> hosts;
  std::size_t burst_max = 32;
  Duration wake_delay_max;
  link::FaultSpec faults;
  std::vector<FaultPhase> phases;
  std::vector<PartitionPlan> partitions;
  std::vector<PausePlan> pauses;
  std::vector<TrafficPlan> traffic;
  bool overflow_queue = false;  // one completion queue is overrun deliberately
  // Nothing is lost, and every path says so, as in shared memory. Posts are sent at once if they can be
  // (Engine::transmit_straight).
  bool lossless = false;
  // Losses are so frequent that exhausted retries are excused.
  bool harsh = false;
  // After this time, or when all is posted, faults stop and everything must complete.
  Duration turbulence_max = seconds(2);
  // If not 0: the run ends at this time, complete or not. For measurements.
  Duration run_time;
  // Upper bound on the time that a packet is in flight.
  Duration packet_lifetime = milliseconds(20);

  // True if nothing is lost, duplicated or reordered: every outcome is known exactly.
  [[nodiscard]] bool calm() const;
};

// A random world: the seed decides every parameter above.
Plan plan_of(std::uint64_t seed);

// The same world with a go-back-N transport that assumes nothing about its peers (EngineConfig::strict).
void make_strict(Plan& plan);

// The same world on the rings of one host: fast, and without faults.
void make_lossless(Plan& plan);

// The longest message of any traffic in the plan.
[[nodiscard]] std::uint32_t message_octets_max(const Plan& plan);

}  // namespace rrdma::sim
