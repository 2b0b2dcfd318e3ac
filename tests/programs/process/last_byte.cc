// last_byte: is the last byte of a WRITE ever visible before the others? Side 1 writes messages of odd sizes
// to odd addresses in batches. Side 0 spins on the last byte of each and, as soon as it changes, checks all
// the others. Side 0 spins without calling a verb (as ib_write_lat does), so that other threads make
// progress, or polls its completion queue while it spins (--polling).
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "completions.h"
#include "pattern.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr std::size_t kBatch = 4;  // with more, most arrive before the watcher looks
constexpr std::size_t kStride = 72 * 1024;
constexpr std::size_t kOctetsMax = 70'001;
constexpr int kSpinsBeforeYield = 2000;
constexpr double kPatienceSeconds = 60;

struct Shot {
  std::size_t offset;
  std::size_t octets;
  std::uint8_t value;
};

// Mostly short messages, some of several packets, some longer than any train.
Shot shot(std::uint64_t seed, std::uint64_t number) {
  const std::uint64_t key = mix(seed, number);
  const std::uint64_t kind = mix(key, 1) % 64;
  const std::size_t below = kind == 0 ? kOctetsMax : kind < 8 ? 9000 : kind < 24 ? 1200 : 80;
  const std::size_t octets = std::min<std::size_t>(1 + mix(key, 2) % below, kOctetsMax) | 1;
  return {mix(key, 3) % 64, octets, static_cast<std::uint8_t>(1 + mix(key, 4) % 255)};
}

struct Watcher {
  Completions& completions;
  bool polling;
  std::uint64_t caught = 0;  // arrived while side 0 was spinning: only these can show an error
};

// The last byte has the value: count the others that do not. Errors are likeliest next to the last byte.
std::size_t count_late(const std::uint8_t* octets, std::size_t count, std::uint8_t value) {
  std::size_t late = 0;
  for (std::size_t i = count; i-- != 0;) late += octets[i] != value;
  return late;
}

std::size_t watch(Watcher& watcher, std::uint8_t* octets, const Shot& expected) {
  std::uint8_t* const last = octets + expected.octets - 1;
  const double begin = monotonic_seconds();
  bool spun = false;
  for (int spins = 1; __atomic_load_n(last, __ATOMIC_ACQUIRE) != expected.value; ++spins) {
    spun = true;
    ibv_wc nothing;
    if (watcher.polling && ibv_poll_cq(watcher.completions.cq(), 1, &nothing) != 0)
      fail("a completion for nobody");
    if (spins % kSpinsBeforeYield != 0) continue;
    ::sched_yield();
    if (monotonic_seconds() - begin > kPatienceSeconds) fail("a WRITE never arrived");
  }
  const std::size_t late = count_late(octets, expected.octets, expected.value);
  watcher.caught += spun;
  return late;
}

// Pins watcher and writer to different processors, if there are two. On one processor the writer runs only
// while the watcher does not, so the watcher never sees a message arrive. The library's threads are not
// pinned.
void take_processor(unsigned side) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  unsigned place = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || place++ != side) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    (void)::sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

void be_watched(SideChannel& side, Watcher& watcher, std::uint8_t* memory, std::uint64_t seed,
                std::uint64_t writes) {
  std::uint64_t early = 0;
  for (std::uint64_t number = 0; number < writes;) {
    side.send("g", 1);
    const std::uint64_t end = std::min(number + kBatch, writes);
    for (; number < end; ++number) {
      const Shot expected = shot(seed, number);
      std::uint8_t* const octets = memory + number % kBatch * kStride + expected.offset;
      if (const std::size_t late = watch(watcher, octets, expected); late != 0) {
        if (early++ < 5)
          say("write " + std::to_string(number) + " of " + std::to_string(expected.octets) +
              " octets: the last was early, " + std::to_string(late) + " came after it");
        while (count_late(octets, expected.octets, expected.value) != 0) ::sched_yield();
      }
      std::memset(octets, 0, expected.octets);
    }
  }
  say(std::to_string(writes) + " writes, " + std::to_string(watcher.caught) + " seen arriving, " +
      std::to_string(early) + " early");
  if (early != 0) fail("the last octet was seen before others");
  if (watcher.caught * 20 < writes)
    fail("nearly every write had arrived before anybody looked: this shows nothing");
}

void write_all(SideChannel& side, Completions& completions, ibv_qp* qp, std::uint8_t* memory,
               const ibv_mr& mr, const RemoteMemory& remote, std::uint64_t seed, std::uint64_t writes) {
  for (std::uint64_t number = 0; number < writes;) {
    char go = 0;
    side.receive(&go, 1);
    const std::uint64_t end = std::min(number + kBatch, writes);
    for (; number < end; ++number) {
      const Shot what = shot(seed, number);
      // Each message of a batch has its own source, because a retransmission may read it until the batch
      // completes.
      std::uint8_t* const from = memory + number % kBatch * kStride;
      std::memset(from, what.value, what.octets);
      ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(from),
                  .length = static_cast<std::uint32_t>(what.octets),
                  .lkey = mr.lkey};
      ibv_send_wr request{};
      request.wr_id = number;
      request.sg_list = &sge;
      request.num_sge = 1;
      request.opcode = IBV_WR_RDMA_WRITE;
      request.send_flags = number + 1 == end ? IBV_SEND_SIGNALED : 0;
      request.wr.rdma = {.remote_addr = remote.address + number % kBatch * kStride + what.offset,
                         .rkey = remote.rkey};
      ibv_send_wr* bad = nullptr;
      if (const int error = ibv_post_send(qp, &request, &bad); error != 0)
        fail("ibv_post_send: " + std::to_string(error));
    }
    const ibv_wc completion = completions.take(kPatienceSeconds);
    if (completion.status != IBV_WC_SUCCESS) fail("WRITE failed: " + describe(completion));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const auto writes = static_cast<std::uint64_t>(arguments.number("writes", 100'000));
  const auto seed = static_cast<std::uint64_t>(arguments.number("seed", 1));
  const bool polling = arguments.flag("polling");
  SideChannel side = SideChannel::open(arguments);
  Device device(arguments);
  arguments.check();
  {
    Completions completions(device, 16, false);
    ibv_qp* const qp = device.create_qp(completions.cq(), {.sends = kBatch});
    std::uint8_t* const memory = map_memory(kBatch * kStride);
    ibv_mr* const mr = device.register_memory(memory, kBatch * kStride);
    const QpAddress own = device.prepare(qp, 0xfffff0);
    device.connect(qp, own, side.trade(own));
    const RemoteMemory remote = side.trade(RemoteMemory{reinterpret_cast<std::uintptr_t>(memory), mr->rkey});
    side.meet();
    take_processor(side.side());
    const double begin = monotonic_seconds();
    Watcher watcher{completions, polling};
    if (side.side() == 0) {
      be_watched(side, watcher, memory, seed, writes);
    } else {
      write_all(side, completions, qp, memory, *mr, remote, seed, writes);
    }
    side.meet();
    if (side.side() == 0) say("took " + std::to_string(monotonic_seconds() - begin) + " s");
    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
  }
  return 0;
}
