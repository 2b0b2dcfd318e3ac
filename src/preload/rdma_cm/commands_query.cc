// Commands that query: QUERY (addresses, GIDs, paths), QUERY_ROUTE, INIT_QP_ATTR.
#include <endian.h>
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>

#include <cstring>

#include "preload/rdma_cm/routing/routes.h"
#include "preload/rdma_cm/station.h"
#include "wire/cm_ip_header.h"

namespace rrdma::rdma_cm {
namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint8_t kExactly = 2;  // selector of MTU, rate and lifetime
constexpr std::uint8_t kRate = IBV_RATE_40_GBPS;
// An index that no kernel device has. If ibv_get_device_index returns -1, as for ours, librdmacm finds the
// device by its GUID alone. For kernel devices it compares this index, because one on the same interface has
// the same GUID.
constexpr std::uint32_t kOwnIndex = 0x7fffffff;
constexpr std::uint32_t kPathFlags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

// rdma_ucm_query_path_resp with one path.
struct PathAnswer {
  std::uint32_t num_paths = 0;
  std::uint32_t reserved = 0;
  ibv_path_data path{};
};
static_assert(offsetof(PathAnswer, path) == sizeof(rdma_ucm_query_path_resp));
static_assert(sizeof(ibv_path_data) == sizeof(ib_path_rec_data));

void copy_gid(const wire::Gid& from, void* to) { std::memcpy(to, from.octets.data(), 16); }

std::uint64_t guid_of(const host::Device& device) { return htobe64(device.identity().guid); }

ibv_path_record path_record(const Identifier& id, std::uint8_t mtu_code) {
  ibv_path_record record{};
  copy_gid(id.route.remote, record.dgid.raw);
  copy_gid(id.route.local, record.sgid.raw);
  record.flowlabel_hoplimit = htobe32(cm::kHopLimit);
  record.tclass = id.route.traffic_class;
  record.reversible_numpath = 0x80 | 1;
  record.pkey = htobe16(wire::kDefaultPKey);
  record.qosclass_sl = htobe16(id.route.service_level);
  record.mtu = static_cast<std::uint8_t>(kExactly << 6 | mtu_code);
  record.rate = kExactly << 6 | kRate;
  record.packetlifetime = kExactly << 6 | cm::kRocePacketLifetime;
  return record;
}

ib_user_path_rec user_path(const Identifier& id, std::uint8_t mtu_code) {
  ib_user_path_rec path{};
  copy_gid(id.route.remote, path.dgid);
  copy_gid(id.route.local, path.sgid);
  path.reversible = 1;
  path.mtu = mtu_code;
  path.pkey = htobe16(wire::kDefaultPKey);
  path.hop_limit = cm::kHopLimit;
  path.traffic_class = id.route.traffic_class;
  path.numb_path = 1;
  path.sl = id.route.service_level;
  path.mtu_selector = kExactly;
  path.rate_selector = kExactly;
  path.rate = kRate;
  path.packet_life_time_selector = kExactly;
  path.packet_life_time = cm::kRocePacketLifetime;
  return path;
}

bool has_path(const Identifier& id) {
  return id.state == IdState::kRouteResolved || id.state == IdState::kConnecting ||
         id.state == IdState::kDisconnected;
}

// The GID of one end as an address of family AF_IB.
IpAddress ib_address(const Identifier& id, const wire::Gid& gid, std::uint16_t port) {
  if (id.source.family == Family::kIb) return id.source;
  return {.family = Family::kIb, .gid = gid, .service_id = wire::service_id_of(id.service(port))};
}

}  // namespace

int Station::query(Channel& channel, const rdma_ucm_query& command, std::size_t room) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const Response response{command.response, room};
  const std::lock_guard lock(mutex_);
  switch (command.option) {
    case RDMA_USER_CM_QUERY_ADDR:
    case RDMA_USER_CM_QUERY_GID: {
      const bool ip = command.option == RDMA_USER_CM_QUERY_ADDR;
      const auto source = ip ? id->source : ib_address(*id, id->route.local, id->source.port);
      const auto destination = ip ? id->destination : ib_address(*id, id->route.remote, id->destination.port);
      rdma_ucm_query_addr_resp answer{};
      answer.src_size = static_cast<std::uint16_t>(emit_sockaddr(source, &answer.src_addr));
      answer.dst_size = static_cast<std::uint16_t>(emit_sockaddr(destination, &answer.dst_addr));
      if (id->device != nullptr) {
        answer.node_guid = guid_of(*id->device);
        answer.ibdev_index = kOwnIndex;
        answer.port_num = kPort;
        answer.pkey = htobe16(wire::kDefaultPKey);
      }
      return response.write(&answer, sizeof answer, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
    }
    case RDMA_USER_CM_QUERY_PATH: {
      PathAnswer answer;
      if (has_path(*id)) {
        answer.num_paths = 1;
        answer.path.flags = kPathFlags;
        answer.path.path = path_record(*id, id->device->port().mtu_code);
      }
      return response.write(&answer, sizeof answer, sizeof(rdma_ucm_query_path_resp));
    }
    default: return ENOSYS;
  }
}

int Station::query_route(Channel& channel, const rdma_ucm_query& command, std::size_t room) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  rdma_ucm_query_route_resp answer{};
  const std::lock_guard lock(mutex_);
  sockaddr_storage storage;
  emit_sockaddr(id->source, &storage);
  std::memcpy(&answer.src_addr, &storage, sizeof answer.src_addr);
  emit_sockaddr(id->destination, &storage);
  std::memcpy(&answer.dst_addr, &storage, sizeof answer.dst_addr);
  if (id->device != nullptr) {
    answer.node_guid = guid_of(*id->device);
    answer.ibdev_index = kOwnIndex;
    answer.port_num = kPort;
    answer.ib_route[0] = user_path(*id, id->device->port().mtu_code);
    answer.num_paths = has_path(*id) ? 1 : 0;
  }
  return Response{command.response, room}.write(&answer, sizeof answer,
                                                offsetof(rdma_ucm_query_route_resp, ibdev_index));
}

void Station::fill_path(const Identifier& id, ib_uverbs_ah_attr& to) const {
  copy_gid(id.route.remote, to.grh.dgid);
  to.grh.sgid_index = static_cast<std::uint8_t>(
      gid_index_for(uplink_.device_of(id.route.local), id.route.local, id.route.remote).value_or(0));
  to.grh.hop_limit = cm::kHopLimit;
  to.grh.traffic_class = id.route.traffic_class;
  to.sl = id.route.service_level;
  to.is_global = 1;
  to.port_num = kPort;
}

int Station::init_qp_attributes(Channel& channel, const rdma_ucm_init_qp_attr& command, std::size_t room) {
  if (room < sizeof(ib_uverbs_qp_attr)) return ENOSPC;
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  ib_uverbs_qp_attr answer{};
  const std::lock_guard lock(mutex_);
  if (id->device == nullptr || command.qp_state > IBV_QPS_ERR) return EINVAL;
  const cm::QpAttributes& known = id->attributes;
  answer.qp_state = command.qp_state;
  answer.port_num = kPort;
  answer.pkey_index = 0;
  const bool connected = id->state == IdState::kConnecting && !id->is_datagram();
  if (!connected) {
    // Without a connection: enough to create a queue pair.
    answer.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    answer.qp_attr_mask |= id->is_datagram() ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    answer.qkey = id->is_datagram() ? id->qkey : 0;
    return Response{command.response, room}.write(answer);
  }
  switch (command.qp_state) {
    case IBV_QPS_INIT:
      answer.qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
      answer.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      if (known.max_destination_reads != 0)
        answer.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
      break;
    case IBV_QPS_RTR:
      if (!id->attributes_known) return EINVAL;
      answer.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
      fill_path(*id, answer.ah_attr);
      answer.path_mtu = known.path_mtu;
      answer.dest_qp_num = known.destination_qpn.value;
      answer.rq_psn = id->starting_psn;
      if (id->qp_type == kQpReliable || id->qp_type == kQpXrcTarget) {
        answer.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        answer.max_dest_rd_atomic = known.max_destination_reads;
      }
      break;
    case IBV_QPS_RTS:
      if (!id->attributes_known) return EINVAL;
      answer.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
      answer.sq_psn = known.send_psn.value;
      if (id->qp_type == kQpReliable || id->qp_type == kQpXrcInitiator) {
        answer.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        answer.retry_cnt = known.retry_count;
        answer.rnr_retry = known.rnr_retry_count;
        answer.max_rd_atomic = known.max_reads;
      }
      if (id->qp_type != kQpUnreliable) {
        answer.qp_attr_mask |= IBV_QP_TIMEOUT;
        answer.timeout = id->ack_timeout_set ? id->ack_timeout : known.timeout;
      }
      break;
    default: return EINVAL;
  }
  return Response{command.response, room}.write(answer);
}

}  // namespace rrdma::rdma_cm
