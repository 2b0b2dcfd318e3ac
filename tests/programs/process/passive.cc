// passive: a target of WRITE, READ and atomics that calls no verb after it has connected (side 0 sleeps in
// recv() of the side channel). Side 1 writes, reads back and compares. With --target-first the target
// connects before side 1 starts to, so only the requests themselves can wake it.
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "completions.h"
#include "pattern.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr std::size_t kArea = 1 << 20;
constexpr double kPatienceSeconds = 30;
constexpr int kSettleMicroseconds = 100'000;  // until the NIC's own thread sleeps

struct Initiator {
  Completions& completions;
  ibv_qp* qp;
  ibv_mr* mr;
  RemoteMemory remote;

  void carry_out(ibv_wr_opcode opcode, const std::uint8_t* local, std::size_t octets, std::size_t offset,
                 std::uint64_t add = 0) {
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(local),
                .length = static_cast<std::uint32_t>(octets),
                .lkey = mr->lkey};
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic.remote_addr = remote.address + offset;
      request.wr.atomic.rkey = remote.rkey;
      request.wr.atomic.compare_add = add;
    } else {
      request.wr.rdma = {.remote_addr = remote.address + offset, .rkey = remote.rkey};
    }
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(qp, &request, &bad); error != 0)
      fail("ibv_post_send: " + std::to_string(error));
    const ibv_wc completion = completions.take(kPatienceSeconds);
    if (completion.status != IBV_WC_SUCCESS)
      fail("a request to the passive target failed: " + describe(completion));
  }
};

void serve_yourself(Initiator& initiator, std::uint8_t* memory, std::uint64_t rounds, std::uint64_t seed) {
  std::uint64_t octets_moved = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::uint64_t key = mix(seed, round);
    const std::size_t octets =
        1 + mix(key, 1) % std::min<std::size_t>(std::size_t{1} << (mix(key, 2) % 19), kArea / 2);
    const std::size_t offset = mix(key, 3) % (kArea - octets);
    fill(memory, octets, key);
    initiator.carry_out(IBV_WR_RDMA_WRITE, memory, octets, offset);
    std::uint8_t* const back = memory + kArea / 2;
    std::memset(back, 0, octets);
    initiator.carry_out(IBV_WR_RDMA_READ, back, octets, offset);
    if (first_wrong(back, octets, key) != octets) fail("READ brought back something else than was written");
    initiator.carry_out(IBV_WR_ATOMIC_FETCH_AND_ADD, back, 8, kArea, 3);
    std::uint64_t before = 0;
    std::memcpy(&before, back, sizeof before);
    if (before != 3 * round) fail("FETCH AND ADD found a wrong value");
    octets_moved += 2 * octets;
  }
  say("the sleeping target served " + std::to_string(3 * rounds) + " requests, " +
      std::to_string(octets_moved) + " octets");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const auto rounds = static_cast<std::uint64_t>(arguments.number("rounds", 1000));
  const auto seed = static_cast<std::uint64_t>(arguments.number("seed", 1));
  const bool target_first = arguments.flag("target-first");
  SideChannel side = SideChannel::open(arguments);
  Device device(arguments);
  arguments.check();
  {
    Completions completions(device, 16, false);
    ibv_qp* const qp = device.create_qp(completions.cq(), {});
    const std::size_t octets = kArea + 4096;
    std::uint8_t* const memory = map_memory(octets);
    ibv_mr* const mr = device.register_memory(memory, octets);
    const QpAddress own = device.prepare(qp, 77);
    const QpAddress peer = side.trade(own);
    if (target_first && side.side() == 1) side.meet();
    if (target_first && side.side() == 0) ::usleep(kSettleMicroseconds);
    device.connect(qp, own, peer);
    if (target_first && side.side() == 0) side.meet();
    const RemoteMemory remote = side.trade(RemoteMemory{reinterpret_cast<std::uintptr_t>(memory), mr->rkey});
    side.meet();
    if (side.side() == 1) {
      Initiator initiator{completions, qp, mr, remote};
      const double begin = monotonic_seconds();
      serve_yourself(initiator, memory, rounds, seed);
      say("took " + std::to_string(monotonic_seconds() - begin) + " s");
    }
    side.meet();
    std::uint64_t sum = 0;
    std::memcpy(&sum, memory + kArea, sizeof sum);
    if (side.side() == 0 && sum != 3 * rounds) fail("the target's counter is wrong");
    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
  }
  return 0;
}
