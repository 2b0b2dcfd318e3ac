// The bars of the engine: 5 million 64-octet SENDs in a second on one core, no allocation for a message,
// 4 KiB of state for an idle RC QP at most, and what 10,000 connected QPs may cost. Each figure is the
// best of many short rounds, so that a busy machine makes the test longer, not wrong.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "engine_pair.h"

namespace {

std::size_t allocated_octets = 0;
std::size_t allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
  allocated_octets += size;
  ++allocations;
  void* memory = alignment == 0
                     ? std::malloc(size == 0 ? 1 : size)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, 0); }
void* operator new[](std::size_t size) { return counted(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace rrdma::bench {
namespace {

constexpr double kMessageNsMax = 200;  // 5 million in a second
constexpr std::size_t kIdleOctetsMax = 4096;
constexpr double kSpreadRatioMax = 1.5;
constexpr double kOneOfManyRatioMax = 1.1;
constexpr std::uint32_t kManyQps = 10'000;
constexpr std::uint32_t kTurnMessages = 16;
constexpr int kRounds = 300;
constexpr int kAttempts = 6;

// Processor time of this thread: others on the machine do not count.
double cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Nanoseconds for a message.
template <typename Step>
double best_ns(int rounds, int steps, int messages, Step step) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double start = cpu_ns();
    for (int i = 0; i < steps; ++i) step();
    best = std::min(best, (cpu_ns() - start) / (steps * messages));
  }
  return best;
}

bool verdict(const char* what, double value, const char* unit, double bar) {
  std::printf("%-58s %9.2f %-5s (at most %.2f)%s\n", what, value, unit, bar, value <= bar ? "" : "  MISSED");
  return value <= bar;
}

double burst_ns(EnginePair& pair, std::uint32_t qp, std::uint32_t messages) {
  return best_ns(kRounds, 20, static_cast<int>(messages), [&] { pair.burst(qp, messages); });
}

// A round goes over all QPs, so that none of their state is warm by chance.
double rotating_ns(EnginePair& pair, std::uint32_t messages) {
  std::uint32_t next = 0;
  return best_ns(6, kManyQps, static_cast<int>(messages), [&] {
    pair.burst(next, messages);
    next = (next + 1) % kManyQps;
  });
}

bool idle_state() {
  // Queues of one entry each: what is left is the QP.
  objects::MemoryTable table(1);
  objects::ProtectionDomain pd;
  objects::CompletionQueue queue(16, nullptr);
  struct Deaf final : transport::EventSink {
    void on_qp_event(transport::QueuePair&, transport::QpEvent) override {}
  } deaf;
  transport::Engine engine({}, table, deaf);
  using namespace transport;
  QpInit init;
  init.pd = &pd;
  init.send_cq = init.receive_cq = &queue;
  init.send_entries = init.receive_entries = 1;
  engine.create_qp(init, wire::Qpn(1));  // the table and the timers have their room now
  const std::size_t before = allocated_octets;
  QueuePair& qp = engine.create_qp(init, wire::Qpn(2));
  QpAttributes attributes;
  attributes.path_mtu = 5;
  attributes.max_reads = attributes.max_destination_reads = 16;
  const auto go = [&](QpState state, std::uint32_t mask) {
    attributes.state = state;
    RRDMA_ASSERT(engine.modify_qp(qp, attributes, kAttrState | mask, {}).ok());
  };
  go(QpState::kInit, kAttrPKeyIndex | kAttrPort | kAttrAccessFlags);
  go(QpState::kReadyToReceive, kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn |
                                   kAttrMaxDestinationReads | kAttrMinRnrTimer);
  go(QpState::kReadyToSend, kAttrSendPsn | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads);
  return verdict("state of an idle RC QP, max_dest_rd_atomic 16",
                 static_cast<double>(allocated_octets - before), "B", kIdleOctetsMax);
}

bool no_allocations() {
  EnginePair pair(4);
  pair.burst(0, EnginePair::kDepth);
  const std::size_t before = allocations;
  for (int i = 0; i < 10'000; ++i) pair.burst(static_cast<std::uint32_t>(i) % 4, EnginePair::kDepth);
  return verdict("allocations for 320,000 messages", static_cast<double>(allocations - before), "", 0);
}

bool speeds() {
  EnginePair one(1);
  EnginePair many(kManyQps);
  const double one_ns = burst_ns(one, 0, EnginePair::kDepth);
  std::printf("%-58s %9.2f M/s\n", "64-octet SENDs on one QP", 1e3 / one_ns);
  bool good = verdict("64-octet SEND on one QP", one_ns, "ns", kMessageNsMax);
  good &= verdict("one of 10,000 QPs, against one", burst_ns(many, 7, EnginePair::kDepth) / one_ns, "x",
                  kOneOfManyRatioMax);
  const double rotating = rotating_ns(many, kTurnMessages) / burst_ns(one, 0, kTurnMessages);
  good &= verdict("10,000 QPs in turn, 16 messages each, against one", rotating, "x", kSpreadRatioMax);
  // With one message in a turn it is the memory that is measured: all state of both QPs is cold every time.
  const double single = rotating_ns(many, 1) / burst_ns(one, 0, 1);
  std::printf("%-58s %9.2f x\n", "10,000 QPs in turn, 1 message each, against one", single);
  return good;
}

}  // namespace
}  // namespace rrdma::bench

int main() {
  using namespace rrdma::bench;
  bool good = idle_state();
  good &= no_allocations();
  bool fast = false;
  for (int attempt = 0; attempt < kAttempts && !fast; ++attempt) fast = speeds();
  return good && fast ? 0 : 1;
}
