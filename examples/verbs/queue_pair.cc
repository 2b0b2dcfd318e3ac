#include "examples/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <random>

namespace examples {
namespace {

constexpr std::uint8_t kReadsUnderWay = 16;
constexpr std::uint8_t kAckTimeout = 14;  // 4.096 us * 2^14 = 67 ms
constexpr std::uint8_t kRetries = 7;
constexpr std::uint8_t kRnrRetriesForever = 7;
constexpr std::uint8_t kRnrTimer = 12;  // 0.64 ms

const char* name_of(ibv_qp_state state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state <= IBV_QPS_ERR ? kNames[state] : "?";
}

ibv_qp_state state_of(ibv_qp* queue_pair) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  if (const int error = ibv_query_qp(queue_pair, &attributes, IBV_QP_STATE, &created); error != 0)
    fail("ibv_query_qp", error);
  return attributes.qp_state;
}

void modify(ibv_qp* queue_pair, ibv_qp_attr& attributes, int mask, Narrator& narrator, const char* why) {
  const char* before = name_of(state_of(queue_pair));
  if (const int error = ibv_modify_qp(queue_pair, &attributes, mask); error != 0) {
    fail(std::string("ibv_modify_qp to ") + name_of(attributes.qp_state), error);
  }
  narrator.step("QP %s -> %s: %s", before, name_of(state_of(queue_pair)), why);
}

}  // namespace

QueuePair create_queue_pair(const Adapter& adapter, Channel& channel, Narrator& narrator) {
  ibv_qp_init_attr wish = channel.queue_pair_wish();
  QueuePair queue_pair(ibv_create_qp(adapter.domain.get(), &wish));
  if (queue_pair == nullptr) fail("ibv_create_qp", errno);
  narrator.step("Queue pair (QP) 0x%06x, reliable connection (RC), state %s", queue_pair->qp_num,
                name_of(state_of(queue_pair.get())));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  modify(queue_pair.get(), attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
         narrator, "port and access rights are set, receives can be posted");
  channel.attach(queue_pair.get());
  narrator.step("Posted %u receives", Channel::kDepth);
  return queue_pair;
}

Endpoint describe(const ibv_qp* queue_pair, const Adapter& adapter, const Channel& channel) {
  return {queue_pair->qp_num, std::random_device{}() & 0xffffff, adapter.gid, adapter.port.active_mtu,
          channel.exposed()};
}

void connect(ibv_qp* queue_pair, const Adapter& adapter, const Endpoint& own, const Endpoint& peer,
             Narrator& narrator) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(own.mtu, peer.mtu);
  attributes.dest_qp_num = peer.queue_pair;
  attributes.rq_psn = peer.first_psn;
  attributes.max_dest_rd_atomic = kReadsUnderWay;
  attributes.min_rnr_timer = kRnrTimer;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = kPort;
  attributes.ah_attr.grh.dgid = peer.gid;
  attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(adapter.gid_index);
  attributes.ah_attr.grh.hop_limit = 64;
  modify(queue_pair, attributes,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         narrator, "the peer is set, the QP accepts packets");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = own.first_psn;
  attributes.timeout = kAckTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kRnrRetriesForever;
  attributes.max_rd_atomic = kReadsUnderWay;
  modify(queue_pair, attributes,
         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         narrator, "timers are set, requests can be sent");
}

}  // namespace examples
