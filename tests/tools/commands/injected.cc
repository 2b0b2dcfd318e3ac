// Calls every verb into which a fault can be injected, and reports which of them failed and how. Each is
// called a second time, which must succeed. At the end, everything is destroyed. Then, with `statuses N`, N
// writes on a separate queue pair each, and the status of each. Plain libibverbs. Output: lines "FUNCTION
// ERRNO" and "status NAME"; exit status 0 if everything else succeeded.
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::uint8_t kPort = 1;

[[noreturn]] void give_up(const char* step) {
  std::printf("FAILED %s %s\n", step, strerrorname_np(errno));
  std::exit(1);
}

// A call that returns null, or an errno (also as -1 with errno, or negative).
template <typename Call>
auto twice(const char* name, Call call) {
  auto result = call();
  const auto error_of = [](auto value) {
    if constexpr (std::is_pointer_v<decltype(value)>) {
      return value == nullptr ? errno : 0;
    } else {
      return static_cast<int>(value == 0 ? 0 : value == -1 ? errno : value < 0 ? -value : value);
    }
  };
  if (const int error = error_of(result); error != 0) {
    std::printf("%s %s\n", name, strerrorname_np(error));
    result = call();
  }
  if (const int error = error_of(result); error != 0) {
    errno = error;
    give_up(name);
  }
  return result;
}
#define TWICE(name, ...) twice(#name, [&] { return name(__VA_ARGS__); })

ibv_device* find(const char* name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** device = list; device != nullptr && *device != nullptr; ++device) {
    if (std::strcmp(name, ibv_get_device_name(*device)) == 0) return *device;
  }
  give_up("no such device");
}

ibv_qp_init_attr form_of(ibv_cq* cq, ibv_srq* srq = nullptr) {
  ibv_qp_init_attr form{};
  form.send_cq = form.recv_cq = cq;
  form.srq = srq;
  form.qp_type = IBV_QPT_RC;
  form.sq_sig_all = 1;
  form.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  return form;
}

// Connects the queue pair to itself.
void connect(ibv_context* context, ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  TWICE(ibv_modify_qp, qp, &attr, kInit);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.hop_limit = 64;
  TWICE(ibv_query_gid, context, kPort, 0, &attr.ah_attr.grh.dgid);
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
    give_up("to RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    give_up("to RTS");
}

void write_once(ibv_qp* qp, ibv_mr* mr) {
  ibv_sge piece{reinterpret_cast<std::uint64_t>(mr->addr), 64, mr->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &piece;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(mr->addr) + 1024;
  wr.wr.rdma.rkey = mr->rkey;
  ibv_send_wr* bad = nullptr;
  TWICE(ibv_post_send, qp, &wr, &bad);
}

ibv_wc await(ibv_cq* cq) {
  ibv_wc wc{};
  for (long i = 0; i < 200'000'000; ++i) {
    const int taken = ibv_poll_cq(cq, 1, &wc);
    if (taken > 0) return wc;
    if (taken < 0) std::printf("ibv_poll_cq %s\n", strerrorname_np(-taken));
  }
  give_up("no completion");
}

void ask(ibv_context* context) {
  ibv_device_attr device{};
  TWICE(ibv_query_device, context, &device);
  ibv_device_attr_ex more{};
  TWICE(ibv_query_device_ex, context, nullptr, &more);
  ibv_port_attr port{};
  TWICE(ibv_query_port, context, kPort, &port);
  ibv_gid_entry entry{};
  TWICE(ibv_query_gid_ex, context, kPort, 0, &entry, 0);
  std::array<ibv_gid_entry, 16> table{};
  twice("ibv_query_gid_table", [&] {
    const ssize_t count = ibv_query_gid_table(context, table.data(), table.size(), 0);
    return count > 0 ? 0 : count;
  });
  __be16 pkey = 0;
  TWICE(ibv_query_pkey, context, kPort, 0, &pkey);
}

void make_domains(ibv_context* context, ibv_pd* pd) {
  ibv_td_init_attr form{};
  ibv_td* td = TWICE(ibv_alloc_td, context, &form);
  ibv_parent_domain_init_attr parent{};
  parent.pd = pd;
  parent.td = td;
  ibv_pd* domain = TWICE(ibv_alloc_parent_domain, context, &parent);
  TWICE(ibv_dealloc_pd, domain);
  TWICE(ibv_dealloc_td, td);
}

void register_memory(ibv_context* context, ibv_pd* pd, std::vector<std::uint8_t>& memory) {
  constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE;
  std::vector<ibv_mr*> made;
  made.push_back(twice("ibv_reg_mr_iova",
                       [&] { return (ibv_reg_mr_iova)(pd, memory.data(), memory.size(), 4096, kAccess); }));
  const int file = memfd_create("memory", 0);
  if (file < 0 || ftruncate(file, 4096) != 0) give_up("memfd_create");
  made.push_back(TWICE(ibv_reg_dmabuf_mr, pd, 0, 4096, 0, file, int{kAccess}));
  ibv_alloc_dm_attr dm_form{.length = 4096, .log_align_req = 0, .comp_mask = 0};
  ibv_dm* dm = TWICE(ibv_alloc_dm, context, &dm_form);
  ibv_mr* in_device = TWICE(ibv_reg_dm_mr, pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED | kAccess);
  made.push_back(TWICE(ibv_alloc_null_mr, pd));
  ibv_mr* on_demand = (ibv_reg_mr)(pd, memory.data(), memory.size(), kAccess | IBV_ACCESS_ON_DEMAND);
  if (on_demand == nullptr) give_up("ibv_reg_mr on demand");
  ibv_sge piece{reinterpret_cast<std::uint64_t>(memory.data()), 64, on_demand->lkey};
  TWICE(ibv_advise_mr, pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, &piece, 1);
  twice("ibv_rereg_mr", [&] {
    const int changed = ibv_rereg_mr(on_demand, IBV_REREG_MR_CHANGE_ACCESS, pd, nullptr, 0, kAccess);
    return changed == 0 ? 0 : errno;
  });
  made.push_back(on_demand);
  made.push_back(in_device);
  for (ibv_mr* mr : made) TWICE(ibv_dereg_mr, mr);
  TWICE(ibv_free_dm, dm);
  close(file);
}

// Features of the extended objects only: posting through builders, polling through a reader.
void use_extended(ibv_context* context, ibv_pd* pd, ibv_mr* mr) {
  ibv_cq_init_attr_ex cq_form{};
  cq_form.cqe = 16;
  ibv_cq_ex* reader = TWICE(ibv_create_cq_ex, context, &cq_form);
  ibv_cq* cq = ibv_cq_ex_to_cq(reader);
  ibv_modify_cq_attr moderation{};
  moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
  TWICE(ibv_modify_cq, cq, &moderation);
  ibv_qp_init_attr_ex form{};
  form.send_cq = form.recv_cq = cq;
  form.qp_type = IBV_QPT_RC;
  form.sq_sig_all = 1;
  form.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  form.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  form.pd = pd;
  form.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  ibv_qp* qp = TWICE(ibv_create_qp_ex, context, &form);
  connect(context, qp);
  ibv_qp_ex* builder = ibv_qp_to_qp_ex(qp);
  twice("ibv_wr_complete", [&] {
    ibv_wr_start(builder);
    ibv_wr_rdma_write(builder, mr->rkey, reinterpret_cast<std::uint64_t>(mr->addr) + 1024);
    ibv_wr_set_sge(builder, mr->lkey, reinterpret_cast<std::uint64_t>(mr->addr), 64);
    return ibv_wr_complete(builder);
  });
  ibv_poll_cq_attr poll{};
  for (int answer = ENOENT; answer != 0;) {
    answer = ibv_start_poll(reader, &poll);
    if (answer != 0 && answer != ENOENT) std::printf("ibv_start_poll %s\n", strerrorname_np(answer));
  }
  if (reader->status != IBV_WC_SUCCESS) give_up(ibv_wc_status_str(reader->status));
  ibv_end_poll(reader);
  TWICE(ibv_destroy_qp, qp);
  TWICE(ibv_destroy_cq, cq);
}

void bind_window(ibv_pd* pd, ibv_qp* qp, ibv_cq* cq, ibv_mw* mw) {
  std::vector<std::uint8_t> memory(4096);
  ibv_mr* mr = (ibv_reg_mr)(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  if (mr == nullptr) give_up("ibv_reg_mr for a window");
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr, reinterpret_cast<std::uint64_t>(memory.data()), 64, IBV_ACCESS_REMOTE_WRITE};
  TWICE(ibv_bind_mw, qp, mw, &bind);
  if (const ibv_wc done = await(cq); done.status != IBV_WC_SUCCESS) give_up(ibv_wc_status_str(done.status));
  bind.bind_info.length = 0;
  if (ibv_bind_mw(qp, mw, &bind) != 0 || await(cq).status != IBV_WC_SUCCESS) give_up("unbinding");
  TWICE(ibv_dereg_mr, mr);
}

// Creates an address handle from a datagram that seems to come from this port itself, and joins a multicast
// group.
void answer_datagram(ibv_pd* pd, ibv_cq* cq, const ibv_gid& gid) {
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  ibv_grh grh{};
  grh.version_tclass_flow = htonl(6u << 28);
  grh.next_hdr = 0x1b;
  grh.sgid = grh.dgid = gid;
  ibv_ah* ah = TWICE(ibv_create_ah_from_wc, pd, &wc, &grh, kPort);
  TWICE(ibv_destroy_ah, ah);
  ibv_qp_init_attr form = form_of(cq);
  form.qp_type = IBV_QPT_UD;
  ibv_qp* qp = ibv_create_qp(pd, &form);
  if (qp == nullptr) give_up("a UD queue pair");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) != 0)
    give_up("to INIT");
  ibv_gid group{};
  group.raw[10] = group.raw[11] = 0xff;
  group.raw[12] = 239;
  group.raw[15] = 7;
  TWICE(ibv_attach_mcast, qp, &group, 0);
  TWICE(ibv_detach_mcast, qp, &group, 0);
  TWICE(ibv_destroy_qp, qp);
}

void share_xrc(ibv_context* context, ibv_pd* pd, ibv_cq* cq) {
  ibv_xrcd_init_attr domain{};
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  domain.fd = -1;
  domain.oflags = O_CREAT;
  ibv_xrcd* xrcd = TWICE(ibv_open_xrcd, context, &domain);
  ibv_srq_init_attr_ex form{};
  form.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
  form.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  form.srq_type = IBV_SRQT_XRC;
  form.pd = pd;
  form.xrcd = xrcd;
  form.cq = cq;
  ibv_srq* srq = TWICE(ibv_create_srq_ex, context, &form);
  TWICE(ibv_destroy_srq, srq);
  TWICE(ibv_close_xrcd, xrcd);
}

void call_everything(ibv_context* context, ibv_pd* pd, ibv_cq* cq, ibv_mr* mr) {
  ibv_srq_init_attr srq_form{.srq_context = nullptr, .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* srq = TWICE(ibv_create_srq, pd, &srq_form);
  ibv_srq_attr limit{.max_wr = 8, .max_sge = 1, .srq_limit = 2};
  TWICE(ibv_modify_srq, srq, &limit, IBV_SRQ_LIMIT);
  TWICE(ibv_query_srq, srq, &limit);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  TWICE(ibv_post_srq_recv, srq, &receive, &bad);
  ibv_qp_init_attr form = form_of(cq);
  ibv_qp* qp = TWICE(ibv_create_qp, pd, &form);
  connect(context, qp);
  ibv_qp_attr attr{};
  TWICE(ibv_query_qp, qp, &attr, IBV_QP_STATE, &form);
  TWICE(ibv_post_recv, qp, &receive, &bad);
  TWICE(ibv_req_notify_cq, cq, 0);
  write_once(qp, mr);
  if (const ibv_wc done = await(cq); done.status != IBV_WC_SUCCESS) give_up(ibv_wc_status_str(done.status));
  TWICE(ibv_resize_cq, cq, 64);
  ibv_mw* mw = TWICE(ibv_alloc_mw, pd, IBV_MW_TYPE_1);
  bind_window(pd, qp, cq, mw);
  TWICE(ibv_dealloc_mw, mw);
  ibv_ah_attr to{};
  to.is_global = 1;
  to.port_num = kPort;
  to.grh.hop_limit = 64;
  if (ibv_query_gid(context, kPort, 0, &to.grh.dgid) != 0) give_up("ibv_query_gid");
  ibv_ah* ah = TWICE(ibv_create_ah, pd, &to);
  TWICE(ibv_destroy_ah, ah);
  answer_datagram(pd, cq, to.grh.dgid);
  share_xrc(context, pd, cq);
  TWICE(ibv_destroy_qp, qp);
  TWICE(ibv_destroy_srq, srq);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  ibv_device* device = find(argv[1]);
  ibv_context* context = TWICE(ibv_open_device, device);
  ibv_pd* pd = TWICE(ibv_alloc_pd, context);
  ibv_comp_channel* channel = TWICE(ibv_create_comp_channel, context);
  ibv_cq* cq = TWICE(ibv_create_cq, context, 16, nullptr, channel, 0);
  std::vector<std::uint8_t> memory(4096);
  ibv_mr* mr = TWICE(ibv_reg_mr, pd, memory.data(), memory.size(),
                     int{IBV_ACCESS_LOCAL_WRITE} | IBV_ACCESS_REMOTE_WRITE);
  const int statuses = argc > 2 ? std::atoi(argv[2]) : 0;
  if (statuses == 0) {
    ask(context);
    make_domains(context, pd);
    register_memory(context, pd, memory);
    call_everything(context, pd, cq, mr);
    use_extended(context, pd, mr);
  }
  for (int i = 0; i < statuses; ++i) {
    ibv_qp_init_attr form = form_of(cq);
    ibv_qp* qp = TWICE(ibv_create_qp, pd, &form);
    connect(context, qp);
    write_once(qp, mr);
    const ibv_wc first = await(cq);
    ibv_qp_attr attr{};
    TWICE(ibv_query_qp, qp, &attr, IBV_QP_STATE, &form);
    std::printf("status %d state %d\n", first.status, attr.qp_state);
    TWICE(ibv_destroy_qp, qp);
  }
  TWICE(ibv_dereg_mr, mr);
  TWICE(ibv_destroy_cq, cq);
  TWICE(ibv_destroy_comp_channel, channel);
  TWICE(ibv_dealloc_pd, pd);
  TWICE(ibv_close_device, context);
  std::puts("done");
  return 0;
}
