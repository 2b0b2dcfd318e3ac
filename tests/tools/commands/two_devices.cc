// Opens two devices in one process and connects a queue pair of one to a queue pair of the other: a SEND from
// the first to the second, a WRITE back and a READ. Checks every byte. Plain libibverbs. Arguments: a device
// and a GID index of it, twice. Exit status 0 if everything arrived.
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "device.h"

namespace {

constexpr std::size_t kOctets = 100'000;
constexpr std::uint8_t kPort = 1;
constexpr auto kPatience = std::chrono::seconds(60);

// One end: a device with its own resources.
class End {
 public:
  End(const char* device, int gid_index)
      : context_(open_device(device)),
        domain_(must(ibv_alloc_pd(context_), "ibv_alloc_pd")),
        completions_(must(ibv_create_cq(context_, 16, nullptr, nullptr, 0), "ibv_create_cq")),
        memory(kOctets),
        gid_index_(static_cast<std::uint8_t>(gid_index)) {
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    region = must(ibv_reg_mr(domain_, memory.data(), memory.size(), kAccess), "ibv_reg_mr");
    ibv_qp_init_attr form{};
    form.send_cq = form.recv_cq = completions_;
    form.qp_type = IBV_QPT_RC;
    form.sq_sig_all = 1;
    form.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    qp = must(ibv_create_qp(domain_, &form), "ibv_create_qp");
    must(ibv_query_gid(context_, kPort, gid_index, &gid_), "ibv_query_gid");
  }

  ~End() {
    must(ibv_destroy_qp(qp), "ibv_destroy_qp");
    must(ibv_dereg_mr(region), "ibv_dereg_mr");
    must(ibv_destroy_cq(completions_), "ibv_destroy_cq");
    must(ibv_dealloc_pd(domain_), "ibv_dealloc_pd");
    must(ibv_close_device(context_), "ibv_close_device");
  }

  void connect(const End& peer) const {
    ibv_qp_attr attributes = connection(peer.qp->qp_num, peer.gid_, gid_index_,
                                        int{IBV_ACCESS_REMOTE_WRITE} | IBV_ACCESS_REMOTE_READ);
    attributes.timeout = 17;
    bring_up(qp, attributes);
  }

  void post_receive() {
    ibv_sge piece = whole();
    ibv_recv_wr request{.wr_id = 0, .next = nullptr, .sg_list = &piece, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    must(ibv_post_recv(qp, &request, &bad), "ibv_post_recv");
  }

  void post_send(ibv_wr_opcode opcode, const End& peer) {
    ibv_sge piece = whole();
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(peer.memory.data());
    request.wr.rdma.rkey = peer.region->rkey;
    ibv_send_wr* bad = nullptr;
    must(ibv_post_send(qp, &request, &bad), "ibv_post_send");
  }

  void await_completion(const char* step) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    ibv_wc completion{};
    while (ibv_poll_cq(completions_, 1, &completion) == 0) {
      if (std::chrono::steady_clock::now() < end) continue;
      std::fprintf(stderr, "%s: no completion\n", step);
      std::exit(1);
    }
    if (completion.status == IBV_WC_SUCCESS) return;
    std::fprintf(stderr, "%s: %s\n", step, ibv_wc_status_str(completion.status));
    std::exit(1);
  }

 private:
  ibv_sge whole() {
    return {reinterpret_cast<std::uint64_t>(memory.data()), static_cast<std::uint32_t>(memory.size()),
            region->lkey};
  }

  ibv_context* context_;
  ibv_pd* domain_;
  ibv_cq* completions_;

 public:
  std::vector<std::uint8_t> memory;
  ibv_mr* region = nullptr;
  ibv_qp* qp = nullptr;

 private:
  std::uint8_t gid_index_;
  ibv_gid gid_{};
};

void fill(End& from, End& to, std::uint8_t first) {
  std::iota(from.memory.begin(), from.memory.end(), first);
  std::fill(to.memory.begin(), to.memory.end(), std::uint8_t{0});
}

void compare(const End& one, const End& other, const char* step) {
  if (one.memory == other.memory) return;
  std::fprintf(stderr, "%s: octets differ\n", step);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s DEVICE GID-INDEX DEVICE GID-INDEX\n", argv[0]);
    return 2;
  }
  End first(argv[1], std::atoi(argv[2])), second(argv[3], std::atoi(argv[4]));
  first.connect(second);
  second.connect(first);

  fill(first, second, 1);
  second.post_receive();
  first.post_send(IBV_WR_SEND, second);
  first.await_completion("send");
  second.await_completion("receive");
  compare(first, second, "send");

  fill(second, first, 2);
  second.post_send(IBV_WR_RDMA_WRITE, first);
  second.await_completion("write");
  compare(first, second, "write");

  fill(second, first, 3);
  first.post_send(IBV_WR_RDMA_READ, second);
  first.await_completion("read");
  compare(first, second, "read");
  std::puts("send, write and read between two devices: every octet right");
  return 0;
}
