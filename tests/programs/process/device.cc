#include "device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "verdict.h"

namespace proof {
namespace {

constexpr int kRemoteRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint8_t kReadDepth = 16;
constexpr std::uint8_t kForEver = 7;

ibv_mtu mtu_code(long octets) {
  switch (octets) {
    case 256: return IBV_MTU_256;
    case 512: return IBV_MTU_512;
    case 1024: return IBV_MTU_1024;
    case 2048: return IBV_MTU_2048;
    case 4096: return IBV_MTU_4096;
    default: fail("--mtu must be 256, 512, 1024, 2048 or 4096");
  }
}

bool is_ipv4(const ibv_gid& gid) {
  for (int i = 0; i < 10; ++i) {
    if (gid.raw[i] != 0) return false;
  }
  return gid.raw[10] == 0xff && gid.raw[11] == 0xff;
}

bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

ibv_context* open_first(const std::string& prefix) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) fail_errno("ibv_get_device_list");
  ibv_context* context = nullptr;
  for (int i = 0; i < count && context == nullptr; ++i) {
    if (std::string(ibv_get_device_name(list[i])).compare(0, prefix.size(), prefix) != 0) continue;
    context = ibv_open_device(list[i]);
    if (context == nullptr) fail_errno("ibv_open_device");
  }
  ibv_free_device_list(list);
  if (context == nullptr) fail("there is no device named " + prefix + "*");
  return context;
}

}  // namespace

Device::Device(Arguments& arguments)
    : context_(open_first(arguments.text("device", "rrdma"))), mtu_(mtu_code(arguments.number("mtu", 1024))) {
  const bool want_ipv4 = arguments.number("family", 4) == 4;
  pd_ = ibv_alloc_pd(context_);
  if (pd_ == nullptr) fail_errno("ibv_alloc_pd");
  ibv_port_attr port{};
  if (ibv_query_port(context_, 1, &port) != 0) fail("ibv_query_port");
  if (port.state != IBV_PORT_ACTIVE) fail("the port is not active");
  for (int i = 0; i < port.gid_tbl_len; ++i) {
    if (ibv_query_gid(context_, 1, i, &gid_) != 0 || gid_.global.interface_id == 0) continue;
    if (is_ipv4(gid_) != want_ipv4 || is_link_local(gid_)) continue;
    gid_index_ = static_cast<std::uint8_t>(i);
    return;
  }
  fail("the device has no GID of the family that was asked for");
}

// Lets a harness read the counters of this process while it still exists. Polling publishes them.
void Device::linger(long milliseconds) {
  ibv_cq* cq = create_cq(1);
  for (long i = 0; i < milliseconds / 10; ++i) {
    ibv_wc nothing;
    ibv_poll_cq(cq, 1, &nothing);
    ::usleep(10'000);
  }
  ibv_destroy_cq(cq);
}

Device::~Device() {
  if (const char* milliseconds = std::getenv("PROOF_LINGER_MS"); milliseconds != nullptr)
    linger(std::atol(milliseconds));
  if (const int error = ibv_dealloc_pd(pd_); error != 0) fail("ibv_dealloc_pd: " + std::to_string(error));
  if (ibv_close_device(context_) != 0) fail("ibv_close_device");
}

ibv_cq* Device::create_cq(int entries, ibv_comp_channel* channel) {
  ibv_cq* cq = ibv_create_cq(context_, entries, nullptr, channel, 0);
  if (cq == nullptr) fail_errno("ibv_create_cq");
  return cq;
}

ibv_qp* Device::create_qp(ibv_cq* cq, const QpSize& size) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = size.sends;
  wanted.cap.max_recv_wr = size.receives;
  wanted.cap.max_send_sge = 4;
  wanted.cap.max_recv_sge = 4;
  wanted.cap.max_inline_data = size.inline_octets;
  ibv_qp* qp = ibv_create_qp(pd_, &wanted);
  if (qp == nullptr) fail_errno("ibv_create_qp");
  return qp;
}

QpAddress Device::prepare(ibv_qp* qp, std::uint32_t psn) {
  ibv_qp_attr to_init{};
  to_init.qp_state = IBV_QPS_INIT;
  to_init.port_num = 1;
  to_init.qp_access_flags = kRemoteRights;
  const int error =
      ibv_modify_qp(qp, &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) fail("ibv_modify_qp to INIT: " + std::to_string(error));
  return {.qpn = qp->qp_num, .psn = psn & 0xffffff, .gid = gid_};
}

void Device::connect(ibv_qp* qp, const QpAddress& own, const QpAddress& peer, const Patience& patience) {
  ibv_qp_attr to_rtr{};
  to_rtr.qp_state = IBV_QPS_RTR;
  to_rtr.path_mtu = mtu_;
  to_rtr.dest_qp_num = peer.qpn;
  to_rtr.rq_psn = peer.psn;
  to_rtr.max_dest_rd_atomic = kReadDepth;
  to_rtr.min_rnr_timer = patience.rnr_timer;
  to_rtr.ah_attr.is_global = 1;
  to_rtr.ah_attr.grh.dgid = peer.gid;
  to_rtr.ah_attr.grh.sgid_index = gid_index_;
  to_rtr.ah_attr.grh.hop_limit = 64;
  to_rtr.ah_attr.port_num = 1;
  int error = ibv_modify_qp(qp, &to_rtr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) fail("ibv_modify_qp to RTR: " + std::to_string(error));
  ibv_qp_attr to_rts{};
  to_rts.qp_state = IBV_QPS_RTS;
  to_rts.sq_psn = own.psn;
  to_rts.timeout = patience.timeout;
  to_rts.retry_cnt = patience.retries;
  to_rts.rnr_retry = kForEver;
  to_rts.max_rd_atomic = kReadDepth;
  error = ibv_modify_qp(qp, &to_rts,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0) fail("ibv_modify_qp to RTS: " + std::to_string(error));
}

ibv_mr* Device::register_memory(void* memory, std::size_t octets) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory, octets, kRemoteRights);
  if (mr == nullptr) fail_errno("ibv_reg_mr");
  return mr;
}

std::uint8_t* map_memory(std::size_t octets) {
  void* memory = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail_errno("mmap");
  return static_cast<std::uint8_t*>(memory);
}

std::string describe(const ibv_wc& completion) {
  return std::string(ibv_wc_status_str(completion.status)) + " (wr_id " + std::to_string(completion.wr_id) +
         ", QP " + std::to_string(completion.qp_num) + ", vendor_err " +
         std::to_string(completion.vendor_err) + ")";
}

}  // namespace proof
