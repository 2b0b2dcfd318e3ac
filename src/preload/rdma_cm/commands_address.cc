// Commands about addresses: BIND, RESOLVE_ADDR, RESOLVE_ROUTE, LISTEN, SET_OPTION, and their older forms.
#include <cstring>

#include "base/guarded_copy.h"
#include "host/clock.h"
#include "preload/rdma_cm/ask.h"
#include "preload/rdma_cm/routing/routes.h"
#include "preload/rdma_cm/station.h"

namespace rrdma::rdma_cm {
namespace {

template <typename T>
int read_option(const rdma_ucm_set_option& command, T& value) {
  if (command.optlen != sizeof value) return EINVAL;
  return guarded_copy(&value, reinterpret_cast<const void*>(command.optval), sizeof value) ? 0 : EFAULT;
}

}  // namespace

control::CmBind bind_message(const Identifier& id, const IpAddress& address) {
  return {.number = id.number,
          .port_space = id.service(0).port_space,
          .family = address.family == Family::kIpv4 ? control::CmFamily::kIpv4 : control::CmFamily::kIpv6,
          .reuse = id.reuse,
          .family_only = id.family_only,
          .address = address.gid,
          .port = address.port};
}

int Station::bind_ip(Channel& channel, const rdma_ucm_bind_ip& command) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const auto address = address_of(&command.addr, sizeof command.addr);
  if (!address || address->family == Family::kIb) return EINVAL;
  const std::lock_guard lock(id->command);
  return bind_id(*id, *address);
}

int Station::bind(Channel& channel, const rdma_ucm_bind& command) {
  if (command.reserved != 0 || command.addr_size == 0 || command.addr_size > sizeof command.addr)
    return EINVAL;
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const auto address = address_of(&command.addr, command.addr_size);
  if (!address) return EINVAL;
  const std::lock_guard lock(id->command);
  return bind_id(*id, *address);
}

// REQUIRES: the id's command lock.
int Station::bind_id(Identifier& id, const IpAddress& address) {
  constexpr const char* kCall = "rdma_bind_addr";
  {
    const std::lock_guard lock(mutex_);
    if (id.destroyed || id.state != IdState::kIdle) return EINVAL;
    if (address.family == Family::kIb) {
      if (id.port_space != RDMA_PS_IB) return EINVAL;
      if (!address.is_any())
        return host::fail(ENODEV, kCall,
                          "addresses of family AF_IB are for InfiniBand; RoCE has IP addresses.");
      id.source = address;
      id.state = IdState::kBound;
      return 0;
    }
  }
  if (address.is_link_local() && address.scope == 0) {
    return host::fail(EINVAL, kCall, "a link-local address needs its interface: fe80::1%eth0.");
  }
  if (const int error = ensure_uplink(kCall); error != 0) return error;
  if (const auto checked = check_source(uplink_.devices(), address); !checked) {
    return host::fail(checked.error().error, kCall, checked.error().sentence);
  }
  const auto bound = ask<control::CmBound>(bind_message(id, address));
  if (!bound) return host::fail(bound.error().error, kCall, bound.error().sentence);
  const std::lock_guard lock(mutex_);
  id.has_port = true;
  id.source = address;
  id.source.port = bound->port;
  id.device = address.is_any() ? nullptr : &uplink_.device_of(address.gid);
  if (id.device != nullptr)
    id.route.local = gid_index_of(*id.device, address.gid) ? address.gid : wire::Gid{};
  id.state = IdState::kBound;
  return 0;
}

int Station::resolve_ip(Channel& channel, const rdma_ucm_resolve_ip& command) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const auto destination = address_of(&command.dst_addr, sizeof command.dst_addr);
  if (!destination) return EINVAL;
  const auto source = address_of(&command.src_addr, sizeof command.src_addr);
  const std::lock_guard lock(id->command);
  return resolve_id(id, source.value_or(IpAddress{}), *destination, command.timeout_ms);
}

int Station::resolve_address(Channel& channel, const rdma_ucm_resolve_addr& command) {
  if (command.reserved != 0 || command.src_size > sizeof command.src_addr ||
      command.dst_size > sizeof command.dst_addr)
    return EINVAL;
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const auto destination = address_of(&command.dst_addr, command.dst_size);
  const auto source = command.src_size == 0 ? IpAddress{} : address_of(&command.src_addr, command.src_size);
  if (!destination || !source) return EINVAL;
  const std::lock_guard lock(id->command);
  return resolve_id(id, *source, *destination, command.timeout_ms);
}

// REQUIRES: the id's command lock.
int Station::resolve_id(const IdPointer& id, const IpAddress& source, const IpAddress& destination,
                        std::uint32_t timeout_ms) {
  constexpr const char* kCall = "rdma_resolve_addr";
  if (destination.family == Family::kIb) {
    return host::fail(ENODEV, kCall, "addresses of family AF_IB are for InfiniBand; RoCE has IP addresses.");
  }
  IdState state;
  {
    const std::lock_guard lock(mutex_);
    state = id->state;
  }
  if (state == IdState::kIdle) {
    const IpAddress from = source.family == destination.family ? source : wildcard_of(destination.family);
    if (source.family != Family::kNone && source.family != destination.family && !source.is_any())
      return EINVAL;
    if (const int error = bind_id(*id, from); error != 0) return error;
  } else if (state != IdState::kBound) {
    return EINVAL;
  }
  IpAddress bound;
  {
    const std::lock_guard lock(mutex_);
    bound = id->source;
  }
  if (bound.family != destination.family) return EINVAL;
  const auto route = resolve_route(uplink_.devices(), bound, destination);
  // As in the kernel, a routing error fails the call, and everything that takes time is reported by an event.
  if (!route) return host::fail(route.error().error, kCall, route.error().sentence);
  {
    const std::lock_guard lock(mutex_);
    id->state = IdState::kAddressQuery;
  }
  if (!route->next_hop || state_of_neighbour(*route->next_hop) == NeighbourState::kKnown) {
    end_address_query(id, *route, destination, true);
    return 0;
  }
  neighbours_.wait(*route->next_hop, host::now() + milliseconds(timeout_ms),
                   [this, id, found = *route, destination](bool known) {
                     end_address_query(id, found, destination, known);
                   });
  return 0;
}

// Reports the result of rdma_resolve_addr. `known`: the next hop's hardware address is known.
void Station::end_address_query(const IdPointer& id, const ResolvedRoute& route, const IpAddress& destination,
                                bool known) {
  constexpr const char* kCall = "rdma_resolve_addr";
  const std::lock_guard lock(mutex_);
  if (id->destroyed || id->state != IdState::kAddressQuery) return;
  if (!known || route.no_device) {
    host::explain(host::Severity::kInfo, kCall,
                  known ? route.no_device->sentence
                        : "nobody on the link has the address " + text_of(route.next_hop->address) +
                              ", the next hop towards " + text_of(destination) + ".");
    id->state = IdState::kBound;
    push(event_for(id, EventKind::kAddressError, known ? -route.no_device->error : -ETIMEDOUT));
    return;
  }
  const std::uint16_t port = id->source.port;
  id->source = route.source;
  id->source.port = port;
  id->destination = destination;
  if (destination.is_any()) id->destination.gid = loopback_of(destination.family).gid;
  id->route = {.local = route.local,
               .remote = route.remote,
               .interface_index = route.interface_index,
               .traffic_class = id->traffic_class};
  id->device = &uplink_.device_of(route.local);
  id->state = IdState::kAddressResolved;
  push(event_for(id, EventKind::kAddressResolved));
}

int Station::resolve_path(Channel& channel, const rdma_ucm_resolve_route& command) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  const std::lock_guard lock(mutex_);
  if (id->state != IdState::kAddressResolved) return EINVAL;
  id->route.traffic_class = id->traffic_class;
  id->state = IdState::kRouteResolved;
  push(event_for(id, EventKind::kRouteResolved));
  return 0;
}

int Station::listen(Channel& channel, const rdma_ucm_listen& command) {
  constexpr const char* kCall = "rdma_listen";
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  IdState state;
  {
    const std::lock_guard lock(mutex_);
    state = id->state;
    if (state != IdState::kIdle && (state != IdState::kBound || id->source.family == Family::kIb))
      return EINVAL;
  }
  if (state == IdState::kIdle) {
    if (const int failed = bind_id(*id, wildcard_of(Family::kIpv4)); failed != 0) return failed;
  }
  // A backlog of 0 or less means the maximum.
  const auto wanted = static_cast<std::int32_t>(command.backlog);
  const control::CmListen message{.number = id->number, .backlog = wanted > 0 ? command.backlog : 0};
  {
    // Before the daemon knows the listener: calls may come at once.
    const std::lock_guard lock(mutex_);
    id->state = IdState::kListening;
    id->backlog = message.backlog;
  }
  const int failed = tell(kCall, message);
  if (failed == 0) return 0;
  const std::lock_guard lock(mutex_);
  id->state = IdState::kBound;
  return failed;
}

int Station::set_option(Channel& channel, const rdma_ucm_set_option& command) {
  int error = 0;
  const IdPointer id = find(channel, command.id, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  if (command.level == RDMA_OPTION_IB) {
    return command.optname == RDMA_OPTION_IB_PATH
               ? host::fail(EINVAL, "rdma_set_option",
                            "paths are for InfiniBand fabrics; RoCE routes by IP address.")
               : ENOSYS;
  }
  if (command.level != RDMA_OPTION_ID) return ENOSYS;
  std::uint8_t octet = 0;
  int number = 0;
  const bool is_octet =
      command.optname == RDMA_OPTION_ID_TOS || command.optname == RDMA_OPTION_ID_ACK_TIMEOUT;
  const bool is_number =
      command.optname == RDMA_OPTION_ID_REUSEADDR || command.optname == RDMA_OPTION_ID_AFONLY;
  if (!is_octet && !is_number) return ENOSYS;
  error = is_octet ? read_option(command, octet) : read_option(command, number);
  if (error != 0) return error;
  const std::lock_guard lock(mutex_);
  switch (command.optname) {
    case RDMA_OPTION_ID_TOS: id->traffic_class = octet; return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (id->state != IdState::kIdle && (number == 0 || id->state == IdState::kListening)) return EINVAL;
      id->reuse = number != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (id->state != IdState::kIdle && id->state != IdState::kBound) return EINVAL;
      id->family_only = number != 0;
      return 0;
    default:  // RDMA_OPTION_ID_ACK_TIMEOUT
      if (id->qp_type != kQpReliable && id->qp_type != kQpXrcInitiator) return EINVAL;
      id->ack_timeout = octet & 0x1f;
      id->ack_timeout_set = true;
      return 0;
  }
}

}  // namespace rrdma::rdma_cm
