// Memory bars of the engine, valid on any machine: no allocation for a message, and at most 4 KiB of state
// for an idle RC QP. A replaced operator new does the counting. It ignores the blocks of the ring store,
// whose pages stay untouched until packets are sent. engine_bars.cc checks the speed.
#include <cstdio>
#include <cstdlib>
#include <new>

#include "engine_pair.h"

namespace {

constexpr std::size_t kBlockOctets = 256 * 1024;
std::size_t allocated_octets = 0;
std::size_t allocations = 0;

void* counted(std::size_t size, std::size_t alignment) {
  if (size < kBlockOctets) allocated_octets += size;
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

constexpr std::size_t kIdleOctetsMax = 4096;

bool verdict(const char* what, std::size_t value, std::size_t bar) {
  std::printf("%-50s %6zu (at most %zu)%s\n", what, value, bar, value <= bar ? "" : "  MISSED");
  return value <= bar;
}

bool idle_state() {
  // Queues of one entry each: the remainder is the QP.
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
  engine.create_qp(init, wire::Qpn(1));  // the table and the timers have allocated now
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
  return verdict("octets of an idle RC QP, max_dest_rd_atomic 16", allocated_octets - before, kIdleOctetsMax);
}

bool no_allocations() {
  EnginePair pair(4);
  pair.burst(0, EnginePair::kDepth);
  const std::size_t before = allocations;
  for (int i = 0; i < 10'000; ++i) pair.burst(static_cast<std::uint32_t>(i) % 4, EnginePair::kDepth);
  return verdict("allocations for 320,000 messages", allocations - before, 0);
}

}  // namespace
}  // namespace rrdma::bench

int main() {
  using namespace rrdma::bench;
  const bool idle = idle_state();
  return no_allocations() && idle ? 0 : 1;
}
