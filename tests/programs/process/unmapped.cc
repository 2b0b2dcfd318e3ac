// unmapped: registered memory that is unmapped when the peer accesses it. The target (side 0) registers
// memory, removes it in several ways, and sleeps or polls on. The initiator (side 1) must get the error that
// the specification names, each time on a new connection, and no process may crash. Then both ends do it to
// their own memory: local errors. Each case is followed by a use of a sound connection.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "completions.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kOctets = 4 * kPage;
constexpr double kPatienceSeconds = 30;

enum class Loss { kUnmapped, kSecondHalfUnmapped, kForbidden, kReadOnly, kTruncatedFile };
enum class Reach { kWrite, kRead, kSend, kAtomic, kLocalWrite, kLocalRead };

struct Case {
  const char* name;
  Reach reach;
  Loss loss;
  ibv_wc_status initiator;  // status of the request
  ibv_wc_status target;     // of its receive; success: it has none
};

constexpr Case kCases[] = {
    {"WRITE to unmapped memory", Reach::kWrite, Loss::kUnmapped, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
    {"READ of unmapped memory", Reach::kRead, Loss::kUnmapped, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
    {"WRITE across the edge of what is left", Reach::kWrite, Loss::kSecondHalfUnmapped, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_SUCCESS},
    {"READ across the edge of what is left", Reach::kRead, Loss::kSecondHalfUnmapped, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_SUCCESS},
    {"WRITE to forbidden pages", Reach::kWrite, Loss::kForbidden, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
    {"READ of forbidden pages", Reach::kRead, Loss::kForbidden, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
    {"WRITE to read-only pages", Reach::kWrite, Loss::kReadOnly, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
    {"WRITE to a truncated file", Reach::kWrite, Loss::kTruncatedFile, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
    {"READ of a truncated file", Reach::kRead, Loss::kTruncatedFile, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS},
    {"FETCH AND ADD on unmapped memory", Reach::kAtomic, Loss::kUnmapped, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_SUCCESS},
    {"SEND into an unmapped receive", Reach::kSend, Loss::kUnmapped, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
    {"WRITE from unmapped memory", Reach::kLocalWrite, Loss::kUnmapped, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS},
    {"READ into unmapped memory", Reach::kLocalRead, Loss::kUnmapped, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS},
};

bool is_local(Reach reach) { return reach == Reach::kLocalWrite || reach == Reach::kLocalRead; }

// An address far below those that the kernel gives to others: a region that was unmapped leaves a hole, and a
// thread of the process must not find its next mapping there.
void* place_of_its_own() {
  static std::uintptr_t next = 0x2000'0000'0000;
  return reinterpret_cast<void*>(next += std::uintptr_t{1} << 20);
}

// Registered memory that can be removed.
class Region {
 public:
  Region(Device& device, Loss loss) : loss_(loss) {
    if (loss == Loss::kTruncatedFile) file_ = ::memfd_create("lost", MFD_CLOEXEC);
    if (file_ >= 0 && ::ftruncate(file_, kOctets) != 0) fail_errno("ftruncate");
    memory_ = ::mmap(place_of_its_own(), kOctets, PROT_READ | PROT_WRITE,
                     file_ >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file_, 0);
    if (memory_ == MAP_FAILED) fail_errno("mmap");
    mr_ = device.register_memory(memory_, kOctets);
  }
  ~Region() {
    if (ibv_dereg_mr(mr_) != 0) fail("ibv_dereg_mr of memory that is gone");
    ::munmap(memory_, kOctets);
    if (file_ >= 0) ::close(file_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  void take_away() {
    auto* const octets = static_cast<std::uint8_t*>(memory_);
    int result = 0;
    switch (loss_) {
      case Loss::kUnmapped: result = ::munmap(memory_, kOctets); break;
      case Loss::kSecondHalfUnmapped: result = ::munmap(octets + kOctets / 2, kOctets / 2); break;
      case Loss::kForbidden: result = ::mprotect(memory_, kOctets, PROT_NONE); break;
      case Loss::kReadOnly: result = ::mprotect(memory_, kOctets, PROT_READ); break;
      case Loss::kTruncatedFile: result = ::ftruncate(file_, 0); break;
    }
    if (result != 0) fail_errno("taking memory away");
  }
  [[nodiscard]] ibv_sge whole() const { return {.addr = address(), .length = kOctets, .lkey = mr_->lkey}; }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  [[nodiscard]] std::uint32_t rkey() const { return mr_->rkey; }

 private:
  Loss loss_;
  int file_ = -1;
  void* memory_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

class Link {
 public:
  Link(Device& device, SideChannel& side, std::uint32_t psn)
      : completions_(device, 16, false), qp_(device.create_qp(completions_.cq(), {})) {
    const QpAddress own = device.prepare(qp_, psn);
    device.connect(qp_, own, side.trade(own));
  }
  ~Link() { ibv_destroy_qp(qp_); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void post_receive(ibv_sge sge) {
    ibv_recv_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(qp_, &request, &bad) != 0) fail("ibv_post_recv");
  }
  ibv_wc_status carry_out(ibv_wr_opcode opcode, ibv_sge sge, std::uint64_t remote, std::uint32_t rkey) {
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      sge.length = 8;
      request.wr.atomic = {.remote_addr = remote, .compare_add = 1, .swap = 0, .rkey = rkey};
    } else {
      request.wr.rdma = {.remote_addr = remote, .rkey = rkey};
    }
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &request, &bad) != 0) fail("ibv_post_send");
    return completions_.take(kPatienceSeconds).status;
  }
  ibv_wc_status received() { return completions_.take(kPatienceSeconds).status; }

 private:
  Completions completions_;
  ibv_qp* qp_;
};

ibv_wr_opcode opcode_of(Reach reach) {
  switch (reach) {
    case Reach::kWrite:
    case Reach::kLocalWrite: return IBV_WR_RDMA_WRITE;
    case Reach::kRead:
    case Reach::kLocalRead: return IBV_WR_RDMA_READ;
    case Reach::kSend: return IBV_WR_SEND;
    case Reach::kAtomic: return IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  return IBV_WR_SEND;
}

void expect(const Case& what, const char* who, ibv_wc_status got, ibv_wc_status wanted) {
  if (got == wanted) return;
  fail(std::string(what.name) + ": the " + who + " got \"" + ibv_wc_status_str(got) + "\" instead of \"" +
       ibv_wc_status_str(wanted) + "\"");
}

void try_case(Device& device, SideChannel& side, Link& sound, Region& sound_memory,
              const RemoteMemory& sound_remote, const Case& what) {
  const bool is_initiator = side.side() == 1;
  Link link(device, side, 99);
  Region memory(device, what.loss);
  if (what.reach == Reach::kSend && !is_initiator) link.post_receive(memory.whole());
  const RemoteMemory remote = side.trade(RemoteMemory{memory.address(), memory.rkey()});
  side.meet();
  if (is_initiator == is_local(what.reach)) memory.take_away();
  side.meet();
  if (is_initiator) {
    const Region& from = is_local(what.reach) ? memory : sound_memory;
    expect(what, "initiator",
           link.carry_out(opcode_of(what.reach), from.whole(), remote.address, remote.rkey), what.initiator);
    // Other connections of this process are unaffected.
    expect(what, "sound connection",
           sound.carry_out(IBV_WR_RDMA_WRITE, sound_memory.whole(), sound_remote.address, sound_remote.rkey),
           IBV_WC_SUCCESS);
    expect(what, "sound connection",
           sound.carry_out(IBV_WR_RDMA_READ, sound_memory.whole(), sound_remote.address, sound_remote.rkey),
           IBV_WC_SUCCESS);
  } else if (what.target != IBV_WC_SUCCESS) {
    expect(what, "target", link.received(), what.target);
  }
  side.meet();
  if (is_initiator) say(std::string(what.name) + ": " + ibv_wc_status_str(what.initiator));
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  SideChannel side = SideChannel::open(arguments);
  Device device(arguments);
  arguments.check();
  {
    Link sound(device, side, 1);
    Region memory(device, Loss::kUnmapped);
    const RemoteMemory remote = side.trade(RemoteMemory{memory.address(), memory.rkey()});
    for (const Case& what : kCases) try_case(device, side, sound, memory, remote, what);
    side.meet();
  }
  return 0;
}
