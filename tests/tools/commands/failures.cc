// Makes work requests fail in several ways. Prints a line for each way with its name, status, vendor_err,
// wr_id, and the QPNs of both ends. failures_test.py compares it with the output of `rrdma explain`. Plain
// libibverbs. Argument: the GID index; then the names of the ways, or none for all.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "device.h"

namespace {

constexpr std::size_t kOctets = 65536;
constexpr std::uint8_t kPort = 1;
constexpr auto kPatience = std::chrono::seconds(60);
constexpr int kAllRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kReadRights = IBV_ACCESS_REMOTE_READ;

struct Device {
  explicit Device(int index) : gid_index(static_cast<std::uint8_t>(index)), memory(kOctets) {
    ibv_device** list = must(ibv_get_device_list(nullptr), "ibv_get_device_list");
    context = must(ibv_open_device(must(list[0], "no device")), "ibv_open_device");
    ibv_free_device_list(list);
    domain = must(ibv_alloc_pd(context), "ibv_alloc_pd");
    region = must(ibv_reg_mr(domain, memory.data(), memory.size(), kAllRights), "ibv_reg_mr");
    read_only = must(ibv_reg_mr(domain, memory.data(), memory.size(), kReadRights), "ibv_reg_mr");
    must(ibv_query_gid(context, kPort, index, &gid), "ibv_query_gid");
  }

  std::uint8_t gid_index;
  std::vector<std::uint8_t> memory;
  ibv_context* context;
  ibv_pd* domain;
  ibv_mr* region;
  ibv_mr* read_only;
  ibv_gid gid;
};

struct Tuning {
  std::uint8_t retry_count = 1;
  std::uint8_t rnr_retry = 1;
  std::uint8_t max_reads = 4;
  bool nobody = false;        // the peer's QP never becomes ready
  std::uint8_t timeout = 12;  // 17 ms
  // The peer is the foreign one of the test (foreign_peer.py), not a QP of this process.
  bool foreign = false;
};

constexpr std::uint32_t kForeignQpn = 0x77;
constexpr std::uint8_t kForeignAddress[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 2};

struct End {
  explicit End(Device& on) : device(on) {
    completions = must(ibv_create_cq(device.context, 16, nullptr, nullptr, 0), "ibv_create_cq");
    ibv_qp_init_attr form{};
    form.send_cq = form.recv_cq = completions;
    form.qp_type = IBV_QPT_RC;
    form.sq_sig_all = 1;
    form.cap = {
        .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    qp = must(ibv_create_qp(device.domain, &form), "ibv_create_qp");
  }
  ~End() {
    must(ibv_destroy_qp(qp), "ibv_destroy_qp");
    must(ibv_destroy_cq(completions), "ibv_destroy_cq");
  }

  void connect(const End& peer, const Tuning& tuning) const {
    ibv_gid gid = device.gid;
    if (tuning.foreign) std::memcpy(gid.raw, kForeignAddress, sizeof kForeignAddress);
    ibv_qp_attr attributes =
        connection(tuning.foreign ? kForeignQpn : peer.qp->qp_num, gid, device.gid_index, kAllRights);
    attributes.rq_psn = attributes.sq_psn = 100;
    attributes.max_dest_rd_atomic = 4;
    attributes.max_rd_atomic = tuning.max_reads;
    attributes.min_rnr_timer = 1;
    attributes.timeout = tuning.timeout;
    attributes.retry_cnt = tuning.retry_count;
    attributes.rnr_retry = tuning.rnr_retry;
    bring_up(qp, attributes);
  }

  void receive(std::uint64_t id, std::uint32_t length, std::uint32_t lkey) const {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(device.memory.data()), length, lkey};
    ibv_recv_wr request{};
    request.wr_id = id;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    must(ibv_post_recv(qp, &request, &bad), "ibv_post_recv");
  }

  ibv_send_wr request(ibv_wr_opcode opcode) const {
    ibv_send_wr wanted{};
    wanted.wr_id = 77;
    wanted.opcode = opcode;
    wanted.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(device.memory.data()) + 4096;
    wanted.wr.rdma.rkey = device.region->rkey;
    return wanted;
  }
  void post(ibv_send_wr wanted, std::uint32_t length, std::uint32_t lkey) const {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(device.memory.data()), length, lkey};
    if (wanted.opcode != IBV_WR_BIND_MW) {
      wanted.sg_list = &sge;
      wanted.num_sge = 1;
    }
    ibv_send_wr* bad = nullptr;
    must(ibv_post_send(qp, &wanted, &bad), "ibv_post_send");
  }

  // The first completion that is neither a success nor flushed.
  ibv_wc failure() const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      ibv_wc completion{};
      if (ibv_poll_cq(completions, 1, &completion) == 1 && completion.status != IBV_WC_SUCCESS &&
          completion.status != IBV_WC_WR_FLUSH_ERR)
        return completion;
    }
    errno = ETIMEDOUT;
    give_up("no request failed");
  }

  Device& device;
  ibv_cq* completions;
  ibv_qp* qp;
};

// The side whose completion fails; nowhere: the way itself waits for what it provokes.
enum class Where : std::uint8_t { kHere, kThere, kNowhere };

struct Way {
  const char* name;
  Tuning tuning;
  Where where;
  void (*provoke)(const End& here, const End& there);
};

std::uint32_t good_key(const End& end) { return end.device.region->lkey; }

const Way kWays[] = {
    {"receive-too-small",
     {},
     Where::kThere,
     [](const End& here, const End& there) {
       there.receive(78, 1500, good_key(there));
       here.post(here.request(IBV_WR_SEND), 3000, good_key(here));
     }},
    {"message-too-long",
     {},
     Where::kHere,
     [](const End& here, const End& there) {
       there.receive(78, 1500, good_key(there));
       here.post(here.request(IBV_WR_SEND), 3000, good_key(here));
     }},
    {"reads-not-allowed",
     {.max_reads = 0},
     Where::kHere,
     [](const End& here, const End&) { here.post(here.request(IBV_WR_RDMA_READ), 64, good_key(here)); }},
    {"bad-lkey",
     {},
     Where::kHere,
     [](const End& here, const End&) {
       here.post(here.request(IBV_WR_RDMA_WRITE), 64, good_key(here) ^ 0x4200);
     }},
    {"bad-receive-lkey",
     {},
     Where::kThere,
     [](const End& here, const End& there) {
       there.receive(78, 64, good_key(there) ^ 0x4200);
       here.post(here.request(IBV_WR_SEND), 64, good_key(here));
     }},
    {"peer-cannot-receive",
     {},
     Where::kHere,
     [](const End& here, const End& there) {
       there.receive(78, 64, good_key(there) ^ 0x4200);
       here.post(here.request(IBV_WR_SEND), 64, good_key(here));
     }},
    {"bind-refused",
     {},
     Where::kHere,
     [](const End& here, const End&) {
       ibv_mw* window = must(ibv_alloc_mw(here.device.domain, IBV_MW_TYPE_2), "ibv_alloc_mw");
       ibv_send_wr wanted{};
       wanted.wr_id = 77;
       wanted.opcode = IBV_WR_BIND_MW;
       wanted.bind_mw.mw = window;
       wanted.bind_mw.rkey = window->rkey;
       wanted.bind_mw.bind_info = {here.device.read_only,
                                   reinterpret_cast<std::uint64_t>(here.device.memory.data()), 64,
                                   IBV_ACCESS_REMOTE_READ};
       here.post(wanted, 0, 0);
     }},
    {"bad-rkey",
     {},
     Where::kHere,
     [](const End& here, const End&) {
       ibv_send_wr wanted = here.request(IBV_WR_RDMA_WRITE);
       wanted.wr.rdma.rkey ^= 0x4200;
       here.post(wanted, 3000, good_key(here));
     }},
    {"write-with-immediate-refused",
     {},
     Where::kThere,
     [](const End& here, const End& there) {
       there.receive(78, 64, good_key(there));
       ibv_send_wr wanted = here.request(IBV_WR_RDMA_WRITE_WITH_IMM);
       wanted.wr.rdma.rkey ^= 0x4200;
       here.post(wanted, 64, good_key(here));
     }},
    {"not-writable",
     {},
     Where::kHere,
     [](const End& here, const End&) {
       ibv_send_wr wanted = here.request(IBV_WR_RDMA_WRITE);
       wanted.wr.rdma.rkey = here.device.read_only->rkey;
       here.post(wanted, 64, good_key(here));
       for (int i = 0; i < 3; ++i) here.post(here.request(IBV_WR_RDMA_WRITE), 64, good_key(here));
       here.receive(79, 64, good_key(here));
     }},
    {"read-past-the-end",
     {},
     Where::kHere,
     [](const End& here, const End&) {
       ibv_send_wr wanted = here.request(IBV_WR_RDMA_READ);
       wanted.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(here.device.memory.data()) + 65500;
       here.post(wanted, 100, good_key(here));
     }},
    {"local-past-the-end",
     {},
     Where::kHere,
     [](const End& here, const End&) { here.post(here.request(IBV_WR_RDMA_WRITE), 65537, good_key(here)); }},
    {"wrong-state",
     {},
     Where::kNowhere,
     [](const End& here, const End&) {
       End unready(here.device);
       ibv_send_wr wanted = unready.request(IBV_WR_SEND);
       ibv_send_wr* bad = nullptr;
       if (ibv_post_send(unready.qp, &wanted, &bad) != EINVAL) give_up("a QP in RESET takes requests");
     }},
    {"full-queue",
     {},
     Where::kNowhere,
     [](const End& here, const End&) {
       // Without polls, the completions of 8 requests at a time fill a queue of 16.
       ibv_async_event event{};
       for (int round = 0; round < 8; ++round) {
         ibv_sge sge{reinterpret_cast<std::uint64_t>(here.device.memory.data()), 8, good_key(here)};
         ibv_send_wr wanted = here.request(IBV_WR_RDMA_WRITE), *bad = nullptr;
         wanted.sg_list = &sge;
         wanted.num_sge = 1;
         for (int i = 0; i < 8; ++i) (void)ibv_post_send(here.qp, &wanted, &bad);
         usleep(50'000);
       }
       must(ibv_get_async_event(here.device.context, &event), "ibv_get_async_event");
       if (event.event_type != IBV_EVENT_CQ_ERR) give_up("the queue is not full");
       ibv_ack_async_event(&event);
     }},
    {"peer-silent",
     {.retry_count = 2, .nobody = true},
     Where::kHere,
     [](const End& here, const End&) { here.post(here.request(IBV_WR_SEND), 64, good_key(here)); }},
    {"bad-response",
     {.retry_count = 7, .timeout = 18, .foreign = true},
     Where::kHere,
     [](const End& here, const End&) { here.post(here.request(IBV_WR_RDMA_READ), 64, good_key(here)); }},
    {"peer-not-ready",
     {.rnr_retry = 3},
     Where::kHere,
     [](const End& here, const End&) { here.post(here.request(IBV_WR_SEND), 64, good_key(here)); }},
};

void run(Device& device, const Way& way) {
  End here(device), there(device);
  here.connect(there, way.tuning);
  if (!way.tuning.nobody && !way.tuning.foreign) there.connect(here, way.tuning);
  way.provoke(here, there);
  if (way.where == Where::kNowhere) {
    std::printf("%s 0 0 0 %u %u\n", way.name, here.qp->qp_num, there.qp->qp_num);
    return;
  }
  const End& failing = way.where == Where::kHere ? here : there;
  const End& other = way.where == Where::kHere ? there : here;
  const ibv_wc completion = failing.failure();
  std::printf("%s %d %u %llu %u %u\n", way.name, completion.status, completion.vendor_err,
              static_cast<unsigned long long>(completion.wr_id), failing.qp->qp_num,
              way.tuning.foreign ? kForeignQpn : other.qp->qp_num);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  Device device(std::atoi(argv[1]));
  for (const Way& way : kWays) {
    bool wanted = argc == 2 && !way.tuning.foreign;
    for (int i = 2; i < argc; ++i) wanted = wanted || std::string_view(argv[i]) == way.name;
    if (wanted) run(device, way);
  }
  return 0;
}
