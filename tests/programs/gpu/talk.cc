#include "talk.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace gpu {

void fail(const std::string& why) {
  std::fprintf(stderr, "%d: %s\n", static_cast<int>(getpid()), why.c_str());
  std::fflush(nullptr);
  _exit(1);
}

void require(bool true_here, const std::string& what) {
  if (!true_here) fail("failed: " + what);
}

double seconds_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::uint64_t published_counter(const std::string& name) {
  constexpr std::size_t kUsed = 28, kRows = 128, kRow = 48, kName = 40;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    if (std::filesystem::read_symlink(entry, none).string().find("memfd:rrdma-process") == std::string::npos)
      continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string page((std::istreambuf_iterator<char>(file)), {});
    std::uint32_t used = 0;
    if (page.size() < kRows) return 0;
    std::memcpy(&used, page.data() + kUsed, sizeof used);
    for (std::size_t at = kRows; used-- != 0 && at + kRow <= page.size(); at += kRow) {
      std::uint64_t value = 0;
      std::memcpy(&value, page.data() + at + kName, sizeof value);
      if (page.compare(at, name.size() + 1, name.c_str(), name.size() + 1) == 0) return value;
    }
  }
  return 0;
}

std::vector<std::uint8_t> pattern(std::uint64_t seed, std::size_t octets) {
  std::vector<std::uint8_t> data(octets);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (std::uint8_t& octet : data) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    octet = static_cast<std::uint8_t>(state >> 56);
  }
  return data;
}

Where where_of(const std::string& name) {
  if (name == "host") return Where::kHost;
  if (name == "heap") return Where::kHeap;
  if (name == "created") return Where::kCreated;
  if (name == "device") return Where::kDevice;
  if (name == "managed") return Where::kManaged;
  if (name == "async") return Where::kAsync;
  fail("no such memory: " + name);
}

Memory::Memory(const Cuda& cuda, Where where, std::size_t octets)
    : cuda_(cuda), where_(where), octets_(octets) {
  Address address = 0;
  void* host = nullptr;
  switch (where) {
    case Where::kHost:
      require(cuda.allocate_host(&host, octets, 0) == 0, "cuMemHostAlloc");
      address = reinterpret_cast<std::uintptr_t>(host);
      break;
    case Where::kHeap:
      host = mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      require(host != MAP_FAILED, "mmap");
      address = reinterpret_cast<std::uintptr_t>(host);
      break;
    case Where::kCreated: address = create(octets); break;
    case Where::kDevice: require(cuda.allocate(&address, octets) == 0, "cuMemAlloc"); break;
    case Where::kManaged:
      require(cuda.allocate_managed(&address, octets, 1) == 0, "cuMemAllocManaged");
      break;
    case Where::kAsync:
      require(cuda.allocate_async(&address, octets, nullptr) == 0, "cuMemAllocAsync");
      break;
  }
  address_ = address;
}

namespace {

// CUmemAllocationProp and CUmemAccessDesc: pinned memory of device 0 that can be exported as a descriptor.
struct AllocationForm {
  int type = 1, handles = 1, location = 1, device = 0;
  void* metadata = nullptr;
  unsigned char flags[8] = {};
};
struct AccessForm {
  int location = 1, device = 0, flags = 3;
};
constexpr std::size_t kGranule = 2 << 20;

std::size_t granules(std::size_t octets) { return (octets + kGranule - 1) / kGranule * kGranule; }

}  // namespace

Address Memory::create(std::size_t octets) const {
  const AllocationForm form;
  const AccessForm access;
  const std::size_t all = granules(octets);
  Address handle = 0, address = 0;
  require(cuda_.create(&handle, all, &form, 0) == 0, "cuMemCreate");
  require(cuda_.reserve(&address, all, 0, 0, 0) == 0, "cuMemAddressReserve");
  require(cuda_.map(address, all, 0, handle, 0) == 0, "cuMemMap");
  require(cuda_.set_access(address, all, &access, 1) == 0, "cuMemSetAccess");
  require(cuda_.release(handle) == 0, "cuMemRelease");
  return address;
}

void Memory::write(std::size_t at, const std::vector<std::uint8_t>& from) const {
  require(at + from.size() <= octets_, "room");
  if (is_of_cpu(where_)) {
    std::copy(from.begin(), from.end(), reinterpret_cast<std::uint8_t*>(address_ + at));
  } else {
    require(cuda_.to_device(address_ + at, from.data(), from.size()) == 0, "cuMemcpyHtoD");
    // Registration makes cuMemcpyHtoD synchronous, for memory that supports it (SYNC_MEMOPS).
    if (where_ != Where::kDevice) require(cuda_.synchronize() == 0, "cuCtxSynchronize");
  }
}

std::vector<std::uint8_t> Memory::read(std::size_t at, std::size_t octets) const {
  std::vector<std::uint8_t> to(octets);
  if (is_of_cpu(where_)) {
    std::copy_n(reinterpret_cast<const std::uint8_t*>(address_ + at), octets, to.begin());
  } else {
    require(cuda_.to_host(to.data(), address_ + at, octets) == 0, "cuMemcpyDtoH");
  }
  return to;
}

void Memory::release() const {
  if (where_ == Where::kCreated) {
    require(cuda_.unmap(address_, granules(octets_)) == 0, "cuMemUnmap");
  } else if (!is_of_cpu(where_)) {
    require(cuda_.free(address_) == 0, "cuMemFree");
  }
}

void Companion::send(const void* octets, std::size_t count) const {
  if (::write(fd_, octets, count) != static_cast<ssize_t>(count)) fail("the other process is gone");
}

void Companion::receive(void* octets, std::size_t count) const {
  auto* to = static_cast<std::uint8_t*>(octets);
  while (count != 0) {
    const ssize_t got = ::read(fd_, to, count);
    if (got <= 0) fail("the other process is gone");
    to += got;
    count -= static_cast<std::size_t>(got);
  }
}

Device::Device() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  require(list != nullptr && count > 0, "a device");
  context_ = ibv_open_device(list[0]);
  require(context_ != nullptr, "ibv_open_device");
  ibv_free_device_list(list);
  pd_ = ibv_alloc_pd(context_);
  require(pd_ != nullptr, "ibv_alloc_pd");
}

bool Device::close() const { return ibv_dealloc_pd(pd_) == 0 && ibv_close_device(context_) == 0; }

ibv_mr* Device::add(const Memory& memory) const {
  ibv_mr* const mr = ibv_reg_mr(
      pd_, reinterpret_cast<void*>(memory.address()), memory.octets(),
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  require(mr != nullptr, "ibv_reg_mr");
  return mr;
}

namespace {

// The first GID of an IPv4 address, or the first of all: a link-local IPv6 address reaches no process on the
// same host.
int choose_gid(ibv_context* context, ibv_gid& gid) {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  for (int index = 0; index < 16 && ibv_query_gid(context, 1, index, &gid) == 0; ++index) {
    if (std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0) return index;
  }
  require(ibv_query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid");
  return 0;
}

}  // namespace

Connection::Connection(const Device& device, const Companion& companion) {
  struct Hello {
    std::uint32_t qpn;
    ibv_gid gid;
  };
  cq_ = ibv_create_cq(device.context(), 512, nullptr, nullptr, 0);
  require(cq_ != nullptr, "ibv_create_cq");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.cap = {
      .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 8, .max_recv_sge = 8, .max_inline_data = 220};
  qp_ = ibv_create_qp(device.pd(), &init);
  require(qp_ != nullptr, "ibv_create_qp");
  Hello own{.qpn = qp_->qp_num, .gid = {}};
  const int gid_index = choose_gid(device.context(), own.gid);
  const Hello peer = companion.trade(own);

  ibv_port_attr port{};
  require(ibv_query_port(device.context(), 1, &port) == 0, "ibv_query_port");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  require(
      ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
      "INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = port.active_mtu;
  attr.dest_qp_num = peer.qpn;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  require(ibv_modify_qp(qp_, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
          "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 17;  // half a second: on a loaded machine the stub is slow
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 16;
  require(ibv_modify_qp(qp_, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "RTS");
  companion.meet();
}

Connection::~Connection() {
  ibv_destroy_qp(qp_);
  ibv_destroy_cq(cq_);
}

void Connection::post(ibv_wr_opcode opcode, std::vector<ibv_sge> list, Key to, unsigned flags,
                      std::uint64_t operand, std::uint64_t swap) {
  ibv_send_wr request{};
  request.sg_list = list.data();
  request.num_sge = static_cast<int>(list.size());
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED | flags;
  request.imm_data = 7;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    request.wr.atomic = {.remote_addr = to.address, .compare_add = operand, .swap = swap, .rkey = to.rkey};
  } else {
    request.wr.rdma = {.remote_addr = to.address, .rkey = to.rkey};
  }
  ibv_send_wr* bad = nullptr;
  require(ibv_post_send(qp_, &request, &bad) == 0, "ibv_post_send");
}

void Connection::post_receive(std::vector<ibv_sge> list) {
  ibv_recv_wr request{};
  request.sg_list = list.data();
  request.num_sge = static_cast<int>(list.size());
  ibv_recv_wr* bad = nullptr;
  require(ibv_post_recv(qp_, &request, &bad) == 0, "ibv_post_recv");
}

ibv_wc Connection::next() {
  ibv_wc completion;
  const double until = seconds_now() + 30;
  while (!poll(completion)) {
    if (seconds_now() > until) fail("no completion within 30 seconds");
  }
  return completion;
}

ibv_wc Connection::done() {
  const ibv_wc completion = next();
  if (completion.status != IBV_WC_SUCCESS)
    fail(std::string("completion: ") + ibv_wc_status_str(completion.status));
  return completion;
}

bool is_remote_error(ibv_wc_status status) {
  return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR ||
         (status == IBV_WC_RETRY_EXC_ERR && std::getenv("RRDMA_FAULT") != nullptr);
}

ibv_sge element(const Memory& memory, const ibv_mr* mr, std::size_t at, std::size_t octets) {
  return {.addr = memory.address() + at, .length = static_cast<std::uint32_t>(octets), .lkey = mr->lkey};
}

}  // namespace gpu
