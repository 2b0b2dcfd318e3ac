// Identifier: one rdma_cm id as the kernel would hold it, and the events that wait for the program. Passive
// data; station.h implements the commands and events that change it.
//
//   idle -> bound -> listening
//             └─(address query)─> address resolved -> route resolved -> connecting -> disconnected
//   (request from the network) ------------------------> connecting
//
// "Connecting" is also the state of an established connection, as in the kernel: the daemon's connection
// manager knows more.
#pragma once

#include <netinet/in.h>  // first: then the kernel's headers use its types
#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "control/cm_messages.h"
#include "host/device.h"
#include "preload/rdma_cm/address.h"
#include "preload/rdma_cm/event_kind.h"

namespace rrdma::rdma_cm {

class Channel;

enum class IdState : std::uint8_t {
  kIdle,
  kBound,
  kListening,
  kAddressQuery,  // rdma_resolve_addr waits for the next hop
  kAddressResolved,
  kRouteResolved,
  kConnecting,
  kDisconnected,
  kRemoved
};

// enum ibv_qp_type.
inline constexpr std::uint8_t kQpReliable = 2;
inline constexpr std::uint8_t kQpUnreliable = 3;
inline constexpr std::uint8_t kQpDatagram = 4;
inline constexpr std::uint8_t kQpXrcInitiator = 9;
inline constexpr std::uint8_t kQpXrcTarget = 10;

// A multicast group that an id has joined.
struct Membership {
  std::uint32_t handle = 0;
  std::uint64_t uid = 0;
  wire::Gid group;
  std::uint32_t events_reported = 0;
};

struct Identifier {
  // Serializes commands. Lock order: before the station's lock.
  std::mutex command;

  // Constant.
  std::uint32_t handle = 0;      // identifies it to the program; dense
  std::uint32_t number = 0;      // identifies it to the daemon; never reused
  std::uint16_t port_space = 0;  // RDMA_PS_*
  std::uint8_t qp_type = 0;      // ibv_qp_type

  // The rest is guarded by the station's lock.
  Channel* channel = nullptr;
  std::uint64_t uid = 0;  // the program's name for it; 0: a request that it has not accepted
  IdState state = IdState::kIdle;
  bool destroyed = false;
  bool has_port = false;                 // at the daemon
  bool address_lost = false;             // the device had it and lost it
  const host::Device* device = nullptr;  // the device that has its address
  IpAddress source;
  IpAddress destination;
  std::uint32_t backlog = 0;
  std::uint32_t events_reported = 0;
  std::vector<std::shared_ptr<Membership>> memberships;

  // Options.
  std::uint8_t traffic_class = 0;
  std::uint8_t ack_timeout = 0;
  bool ack_timeout_set = false;
  bool reuse = false;
  bool family_only = false;

  // The connection. `half_open` until it is established: a half-open connection does not survive the daemon.
  cm::Route route;
  cm::ConnectionId connection;   // 0: none
  std::uint32_t daemon_pid = 0;  // the daemon that knows the connection
  bool active = false;
  bool half_open = false;
  std::uint32_t starting_psn = 0;
  std::uint32_t qkey = 0;
  bool attributes_known = false;
  cm::QpAttributes attributes;
  std::optional<cm::EstablishedConnection> established;

  [[nodiscard]] bool is_datagram() const { return qp_type == kQpDatagram; }
  [[nodiscard]] bool is_connected() const { return connection.value != 0; }
  // Service IDs carry the low byte of RDMA_PS_*.
  [[nodiscard]] wire::IpService service(std::uint16_t port) const {
    return {.port_space = static_cast<wire::PortSpace>(static_cast<std::uint8_t>(port_space)), .port = port};
  }
};

// An event on its way to the program. It counts for `id` once the program has fetched it.
struct PendingEvent {
  std::shared_ptr<Identifier> id;
  std::shared_ptr<Identifier> request;  // CONNECT_REQUEST: the new id
  std::shared_ptr<Membership> membership;
  rdma_ucm_event_resp content{};
};

}  // namespace rrdma::rdma_cm
