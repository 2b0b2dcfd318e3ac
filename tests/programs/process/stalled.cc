// stalled: a target whose memory blocks every access (side 0 puts it under userfaultfd and answers no fault).
// The initiator (side 1) posts a WRITE to it, and must go on with other connections of the same completion
// queue. --userfaultfd=PATH: a copy of /dev/userfaultfd that this user may open.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "completions.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr std::size_t kPage = 4096;
constexpr int kRounds = 2000;
constexpr double kPatienceSeconds = 20;

// The descriptor keeps the memory blocked until it is closed.
int block_memory(void* memory, const std::string& path) {
  const int device = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (device < 0) fail_errno("open");
  const int blocked = ::ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
  ::close(device);
  uffdio_api api{};
  api.api = UFFD_API;
  uffdio_register request{};
  request.range = {.start = reinterpret_cast<std::uintptr_t>(memory), .len = kPage};
  request.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (blocked < 0 || ::madvise(memory, kPage, MADV_DONTNEED) != 0 ||
      ::ioctl(blocked, UFFDIO_API, &api) != 0 || ::ioctl(blocked, UFFDIO_REGISTER, &request) != 0)
    fail_errno("userfaultfd");
  return blocked;
}

void write(ibv_qp* qp, const ibv_mr* from, const RemoteMemory& to) {
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(from->addr), .length = 8, .lkey = from->lkey};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = to.address, .rkey = to.rkey};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp, &request, &bad) != 0) fail("ibv_post_send");
}

// Two queue pairs of this process, connected with each other.
struct Loop {
  Loop(Device& device, ibv_cq* cq) : ends{device.create_qp(cq, {}), device.create_qp(cq, {})} {
    const QpAddress first = device.prepare(ends[0], 5), second = device.prepare(ends[1], 6);
    device.connect(ends[0], first, second);
    device.connect(ends[1], second, first);
  }
  ~Loop() {
    for (ibv_qp* end : ends) ibv_destroy_qp(end);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ibv_qp* ends[2];
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  const std::string path = arguments.text("userfaultfd", "/dev/userfaultfd");
  SideChannel side = SideChannel::open(arguments);
  Device device(arguments);
  arguments.check();
  Completions completions(device, 64, false);
  ibv_qp* const qp = device.create_qp(completions.cq(), {});
  std::uint8_t* const memory = map_memory(2 * kPage);
  ibv_mr* const mr = device.register_memory(memory, 2 * kPage);
  const QpAddress own = device.prepare(qp, 77);
  device.connect(qp, own, side.trade(own));
  const RemoteMemory here{reinterpret_cast<std::uintptr_t>(memory), mr->rkey};
  const RemoteMemory remote = side.trade(here);
  // Once before, so that the peers know each other.
  if (side.side() == 1) {
    write(qp, mr, remote);
    if (completions.take(kPatienceSeconds).status != IBV_WC_SUCCESS) fail("the first WRITE");
  }
  side.meet();
  const int blocked = side.side() == 0 ? block_memory(memory, path) : -1;
  side.meet();
  if (side.side() == 1) {
    Loop loop(device, completions.cq());
    write(qp, mr, remote);
    for (int round = 0; round < kRounds; ++round) {
      write(loop.ends[round % 2], mr, {here.address + kPage, here.rkey});
      const ibv_wc completion = completions.take(kPatienceSeconds);
      if (completion.qp_num == qp->qp_num) fail("a WRITE to blocked memory ended: " + describe(completion));
      if (completion.status != IBV_WC_SUCCESS) fail("another connection: " + describe(completion));
    }
    say("other connections went on: " + std::to_string(kRounds) + " requests");
  }
  side.meet();
  if (blocked >= 0) ::close(blocked);
  ibv_destroy_qp(qp);
  ibv_dereg_mr(mr);
  return 0;
}
