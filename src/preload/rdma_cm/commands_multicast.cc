// Commands about multicast groups: JOIN_MCAST, JOIN_IP_MCAST, LEAVE_MCAST. ibv_attach_mcast creates the
// membership itself (IGMP, MLD). librdmacm calls it for the id's queue pair when it fetches the event; an id
// without a queue pair cannot receive.
#include <netinet/in.h>  // first: then the kernel's headers use its types
#include <rdma/rdma_user_cm.h>

#include "host/explain.h"
#include "preload/rdma_cm/routing/routes.h"
#include "preload/rdma_cm/station.h"

namespace rrdma::rdma_cm {
namespace {

constexpr std::uint32_t kMulticastQpn = 0xffffff;

}  // namespace

int Station::join_ip_multicast(Channel& channel, const rdma_ucm_join_ip_mcast& command, std::size_t room) {
  const auto group = address_of(&command.addr, sizeof command.addr);
  if (!group) return EINVAL;
  return join(channel, command.id, command.uid, *group, {command.response, room});
}

int Station::join_multicast(Channel& channel, const rdma_ucm_join_mcast& command, std::size_t room) {
  if (command.addr_size > sizeof command.addr || command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
    return EINVAL;
  const auto group = address_of(&command.addr, command.addr_size);
  if (!group) return EINVAL;
  // librdmacm does not attach a send-only member, so it needs no special case here.
  return join(channel, command.id, command.uid, *group, {command.response, room});
}

int Station::join(Channel& channel, std::uint32_t handle, std::uint64_t uid, const IpAddress& group,
                  const Response& response) {
  constexpr const char* kCall = "rdma_join_multicast";
  if (response.room < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  int error = 0;
  const IdPointer id = find(channel, handle, error);
  if (id == nullptr) return error;
  const std::lock_guard command_lock(id->command);
  if (group.family == Family::kIb || !group.is_multicast()) {
    return host::fail(EINVAL, kCall, text_of(group) + " is not the address of a multicast group.");
  }
  const std::lock_guard lock(mutex_);
  const bool may_join = id->state == IdState::kBound || id->state == IdState::kAddressResolved ||
                        id->state == IdState::kRouteResolved;
  if (id->destroyed || !may_join || id->device == nullptr) return EINVAL;
  const auto route = resolve_route(
      uplink_.devices(), id->source.family == group.family ? id->source : wildcard_of(group.family), group);
  if (!route) return host::fail(route.error().error, kCall, route.error().sentence);
  auto membership = std::make_shared<Membership>();
  membership->uid = uid;
  membership->group = group.gid;
  for (membership->handle = 1; memberships_.contains(membership->handle);) ++membership->handle;
  const rdma_ucm_create_id_resp answer{.id = membership->handle};
  if (const int failed = response.write(answer); failed != 0) return failed;
  memberships_[membership->handle] = {id, membership};
  id->memberships.push_back(membership);

  PendingEvent event = event_for(id, EventKind::kMulticastJoin);
  event.membership = membership;
  event.content.uid = uid;
  rdma_ucm_ud_param& parameters = event.content.param.ud;
  parameters.qp_num = kMulticastQpn;
  parameters.qkey = id->qkey;
  Identifier reached;
  reached.route = {.local = route->local, .remote = group.gid, .traffic_class = id->traffic_class};
  fill_path(reached, parameters.ah_attr);
  push(std::move(event));
  return 0;
}

int Station::leave_multicast(Channel& channel, const rdma_ucm_destroy_id& command, std::size_t room) {
  if (room < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  rdma_ucm_destroy_id_resp answer{};
  {
    const std::lock_guard lock(mutex_);
    const auto found = memberships_.find(command.id);
    if (found == memberships_.end()) return ENOENT;
    const auto [id, membership] = found->second;
    if (id->channel != &channel) return EINVAL;
    memberships_.erase(found);
    std::erase(id->memberships, membership);
    (void)channel.take_all_of(*membership);
    answer.events_reported = membership->events_reported;
  }
  return Response{command.response, room}.write(answer);
}

}  // namespace rrdma::rdma_cm
