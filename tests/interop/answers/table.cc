// Table: the device under question, and the few calls that all questions share.
#include <poll.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "probe.h"

namespace answers {
namespace {

constexpr int kPatienceMs = 2000;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "probe: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

std::int64_t now_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

}  // namespace

std::string name_of_error(int error) {
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : "errno " + std::to_string(error);
}

std::string outcome(int error) { return error == 0 ? "ok" : name_of_error(error < 0 ? -error : error); }

std::string name_of_status(ibv_wc_status status) { return ibv_wc_status_str(status); }

void tell(const std::string& key, const std::string& answer) {
  std::printf("%s: %s\n", key.c_str(), answer.c_str());
}

Table::Table(const char* device) {
  ibv_device** list = ibv_get_device_list(nullptr);
  for (int i = 0; list != nullptr && list[i] != nullptr; ++i) {
    if (std::strcmp(ibv_get_device_name(list[i]), device) == 0) context = ibv_open_device(list[i]);
  }
  if (list != nullptr) ibv_free_device_list(list);
  if (context == nullptr) give_up(device);
  memory = static_cast<std::uint8_t*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
  constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                          IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
  if (pd != nullptr) mr = ibv_reg_mr(pd, memory, kBytes, kRights);
  if (mr == nullptr || cq == nullptr) give_up("the device gives no memory region and no CQ");
  // The last IPv4 GID, or the last of all: the first one may be link-local.
  for (int i = 0; i < 16; ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(i), &entry, 0) != 0) continue;
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    gid_index = static_cast<std::uint8_t>(i);
    gid = entry.gid;
    if (gid.global.subnet_prefix == 0) break;
  }
}

Table::~Table() {
  // Closing the context destroys the objects that questions left behind.
  ibv_close_device(context);
  munmap(memory, kBytes);
}

ibv_sge Table::at(std::size_t offset, std::uint32_t length) const {
  return {.addr = address(offset), .length = length, .lkey = mr->lkey};
}

std::uint64_t Table::address(std::size_t offset) const {
  return reinterpret_cast<std::uintptr_t>(memory + offset);
}

ibv_qp* Table::create_qp(ibv_qp_type type, ibv_cq* to, unsigned inline_bytes) const {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = to != nullptr ? to : cq;
  init.cap = {.max_send_wr = 8,
              .max_recv_wr = 8,
              .max_send_sge = 2,
              .max_recv_sge = 2,
              .max_inline_data = inline_bytes};
  init.qp_type = type;
  init.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  if (qp == nullptr) give_up("ibv_create_qp");
  return qp;
}

void Table::move(ibv_qp* qp, ibv_qp_state to, std::uint32_t peer, std::uint8_t timeout,
                 std::uint8_t hops) const {
  if (to == IBV_QPS_RESET) return;
  const auto step = [&](ibv_qp_attr attr, int mask) {
    if (const int error = ibv_modify_qp(qp, &attr, mask); error != 0) {
      errno = error;
      give_up("ibv_modify_qp");
    }
  };
  const bool datagram = qp->qp_type == IBV_QPT_UD, reliable = qp->qp_type == IBV_QPT_RC;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = 0x1234;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  step(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  if (to == IBV_QPS_INIT) return;
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh = {
      .dgid = gid, .flow_label = 0, .sgid_index = gid_index, .hop_limit = hops, .traffic_class = 0};
  const int connected = datagram ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  step(attr, IBV_QP_STATE | connected | (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
  if (to == IBV_QPS_RTR) return;
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = timeout;
  attr.retry_cnt = 1;
  attr.rnr_retry = 1;
  attr.max_rd_atomic = 4;
  step(attr,
       IBV_QP_STATE | IBV_QP_SQ_PSN |
           (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
  if (to == IBV_QPS_RTS) return;
  attr = {};
  attr.qp_state = to;
  step(attr, IBV_QP_STATE);
}

void Table::connect(ibv_qp* one, ibv_qp* other) const {
  move(one, IBV_QPS_RTS, other->qp_num);
  move(other, IBV_QPS_RTS, one->qp_num);
}

ibv_ah* Table::create_ah(std::uint8_t hops) const {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh = {.dgid = gid, .flow_label = 0, .sgid_index = gid_index, .hop_limit = hops, .traffic_class = 0};
  return ibv_create_ah(pd, &attr);
}

std::string Table::completion(ibv_cq* from, std::uint64_t wr_id) const {
  const std::int64_t end = now_ms() + kPatienceMs;
  while (now_ms() < end) {
    ibv_wc wc{};
    const int found = ibv_poll_cq(from, 1, &wc);
    if (found < 0) return "ibv_poll_cq fails";
    if (found == 1 && wc.wr_id == wr_id) return name_of_status(wc.status);
    if (found == 0) poll(nullptr, 0, 1);
  }
  return "none";
}

std::string state_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (const int error = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init); error != 0) return name_of_error(error);
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return attr.qp_state <= IBV_QPS_ERR ? kNames[attr.qp_state] : "unknown";
}

int post(ibv_qp* qp, ibv_send_wr wr) {
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

int receive(ibv_qp* qp, std::uint64_t id, ibv_sge sge) {
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

std::string posted(const Table& table, ibv_qp* qp, ibv_send_wr wr) {
  const int error = post(qp, wr);
  return error != 0 ? name_of_error(error) : "completes: " + table.completion(qp->send_cq, wr.wr_id);
}

}  // namespace answers
