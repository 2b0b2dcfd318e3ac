// Plan: all that a seed (or a command line) decides before a run: hosts and their cables, faults, the
// connections with their attributes, and what is sent over them.
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
  // Two requests that only make sense together.
  kWriteReadBack,  // READ what the WRITE before it has written
  kReadThenWrite,  // a fenced WRITE over what the READ before it reads
  kReadThenSend,   // a fenced SEND of what the READ before it has read
};
inline constexpr std::size_t kOperationCount = static_cast<std::size_t>(Operation::kReadThenSend) + 1;
using Mix = std::array<std::uint8_t, kOperationCount>;  // weights

// Errors that a workload makes on purpose. The status that each must end with is the oracle's business.
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
  std::uint8_t features_a = 0;  // what side a knows of side b
  std::uint8_t features_b = 0;
  bool learns_late = false;       // only when both have long been talking
  std::uint32_t messages = 1000;  // posted by both sides together
  std::uint32_t octets_min = 0;
  std::uint32_t octets_max = 4096;
  Mix mix{};
  std::uint32_t starve_ppm = 0;  // turns in which no receive is posted
  std::uint32_t unsignaled_ppm = 300'000;
  std::uint32_t inline_ppm = 200'000;
  std::uint32_t fence_ppm = 50'000;
  std::uint32_t drain_ppm = 0;    // turns that take the send queue through SQD
  std::uint32_t provoke_ppm = 0;  // messages that are an error on purpose
  std::uint32_t burst_max = 4;    // messages posted in one turn
  Duration think_max = microseconds(20);
  Duration stagger_max;  // one side gets to RTR and RTS that much later

  [[nodiscard]] Duration ack_timeout() const;  // 0: never
};

struct PartitionPlan {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Instant begin, end;
};
// Other faults than the plan's own, for a time.
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
  bool overflow_queue = false;  // one completion queue is overrun on purpose
  // So much is lost that running out of retries is no wonder.
  bool harsh = false;
  // After that, or when all is posted: no more faults, and everything must complete.
  Duration turbulence_max = seconds(2);
  // The run ends then, complete or not (0: when all is done). For measurements.
  Duration run_time;
  // No packet is on its way longer than this.
  Duration packet_lifetime = milliseconds(20);

  // Nothing is lost, doubled or overtaken: every outcome is exactly known.
  [[nodiscard]] bool calm() const;
};

// A random world: every parameter above, decided by the seed.
Plan plan_of(std::uint64_t seed);

// The same world with a transport that goes back N and knows nobody (EngineConfig::strict).
void make_strict(Plan& plan);

// What a run of random worlds must have met.
[[nodiscard]] std::uint32_t message_octets_max(const Plan& plan);

}  // namespace rrdma::sim
