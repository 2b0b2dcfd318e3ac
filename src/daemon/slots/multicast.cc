#include "daemon/slots/multicast.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rrdma::daemon {
namespace {

// 0 or an errno.
int change_membership(const IpSockets& sockets, const GroupRow& row, bool joins) {
  if (row.group.is_ipv4()) {
    ip_mreqn request{};
    std::memcpy(&request.imr_multiaddr, row.group.ipv4().data(), 4);
    request.imr_ifindex = static_cast<int>(row.interface_index);
    if (!sockets.v4) return EAFNOSUPPORT;
    return raw::setsockopt(sockets.v4.get(), IPPROTO_IP, joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
                           &request, sizeof request) < 0
               ? errno
               : 0;
  }
  ipv6_mreq request{};
  std::memcpy(&request.ipv6mr_multiaddr, row.group.octets.data(), 16);
  request.ipv6mr_interface = row.interface_index;
  if (!sockets.v6) return EAFNOSUPPORT;
  return raw::setsockopt(sockets.v6.get(), IPPROTO_IPV6, joins ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request,
                         sizeof request) < 0
             ? errno
             : 0;
}

}  // namespace

void leave_all_groups(SlotLedger& ledger, Slot slot, const IpSockets& sockets) {
  while (!ledger.row(slot).groups.empty()) {
    const GroupRow group = ledger.row(slot).groups.back();
    (void)change_membership(sockets, group, false);
    ledger.leave(slot, group);
  }
}

Subsystem::Verdict Multicast::handle_message(Client& client, control::Received& message) {
  if (message.type() == control::MessageType::kJoinGroup) {
    const auto request = message.as<control::JoinGroup>();
    if (!request) return Verdict::kMalformed;
    join(client, message, request->slot, {request->group, request->interface_index});
    return Verdict::kHandled;
  }
  if (message.type() == control::MessageType::kLeaveGroup) {
    const auto request = message.as<control::LeaveGroup>();
    if (!request) return Verdict::kMalformed;
    leave(client, message, request->slot, {request->group, request->interface_index});
    return Verdict::kHandled;
  }
  return Verdict::kOthers;
}

void Multicast::join(Client& client, const control::Received& request, Slot slot, const GroupRow& group) {
  if (slots_.owner_of(slot) != &client || !group.group.is_multicast()) {
    return client.fail(request, EINVAL, "a multicast group is joined for a slot that the program holds.");
  }
  if (slot >= network_.slots_bound()) {
    return client.fail(request, ENETDOWN, "multicast needs the network: " + network_.state().reason);
  }
  const auto& groups = network_.ledger().row(slot).groups;
  if (std::find(groups.begin(), groups.end(), group) != groups.end())
    return (void)client.reply(request, control::Done{});
  // Written first: this daemon may be killed at any point.
  if (!network_.ledger().join(slot, group)) {
    return client.fail(request, ENOSPC,
                       "a slot joins at most " + std::to_string(kGroupsPerSlotMax) + " multicast groups.");
  }
  if (const int error = change_membership(network_.sockets_of(slot), group, true); error != 0) {
    network_.ledger().leave(slot, group);
    return client.fail(
        request, error,
        std::string("the kernel refused to join the multicast group: ") + std::strerror(error) + ".");
  }
  counters_.add("multicast.joined");
  (void)client.reply(request, control::Done{});
}

void Multicast::leave(Client& client, const control::Received& request, Slot slot, const GroupRow& group) {
  const auto& groups = network_.ledger().row(slot).groups;
  const bool joined = std::find(groups.begin(), groups.end(), group) != groups.end();
  if (slots_.owner_of(slot) != &client || !joined || slot >= network_.slots_bound()) {
    return client.fail(request, EADDRNOTAVAIL, "the slot has not joined that multicast group.");
  }
  (void)change_membership(network_.sockets_of(slot), group, false);
  network_.ledger().leave(slot, group);
  counters_.add("multicast.left");
  (void)client.reply(request, control::Done{});
}

}  // namespace rrdma::daemon
