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

void forget_group(LedgerRow& row, std::uint32_t index) {
  row.groups[index] = row.groups[row.group_count - 1];
  --row.group_count;
}

}  // namespace

void leave_all_groups(SlotLedger& ledger, std::uint8_t slot, const IpSockets& sockets) {
  LedgerRow& row = ledger.row(slot);
  while (row.group_count > 0) {
    (void)change_membership(sockets, row.groups[row.group_count - 1], false);
    --row.group_count;
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

void Multicast::join(Client& client, const control::Received& request, std::uint8_t slot,
                     const GroupRow& group) {
  if (slots_.owner_of(slot) != &client || !group.group.is_multicast()) {
    return client.fail(request, EINVAL, "a multicast group is joined for a slot that the program holds.");
  }
  if (slot >= network_.slots_bound()) {
    return client.fail(request, ENETDOWN, "multicast needs the network: " + network_.state().reason);
  }
  LedgerRow& row = network_.ledger().row(slot);
  const auto end = row.groups.begin() + row.group_count;
  if (std::find(row.groups.begin(), end, group) != end) return (void)client.reply(request, control::Done{});
  if (row.group_count == kGroupsPerSlotMax) {
    return client.fail(request, ENOSPC,
                       "a slot joins at most " + std::to_string(kGroupsPerSlotMax) + " multicast groups.");
  }
  row.groups[row.group_count] = group;
  ++row.group_count;
  if (const int error = change_membership(network_.sockets_of(slot), group, true); error != 0) {
    --row.group_count;
    return client.fail(
        request, error,
        std::string("the kernel refused to join the multicast group: ") + std::strerror(error) + ".");
  }
  counters_.add("multicast.joined");
  (void)client.reply(request, control::Done{});
}

void Multicast::leave(Client& client, const control::Received& request, std::uint8_t slot,
                      const GroupRow& group) {
  LedgerRow& row = network_.ledger().row(slot);
  const auto end = row.groups.begin() + row.group_count;
  const auto found = std::find(row.groups.begin(), end, group);
  if (slots_.owner_of(slot) != &client || found == end || slot >= network_.slots_bound()) {
    return client.fail(request, EADDRNOTAVAIL, "the slot has not joined that multicast group.");
  }
  (void)change_membership(network_.sockets_of(slot), group, false);
  forget_group(row, static_cast<std::uint32_t>(found - row.groups.begin()));
  counters_.add("multicast.left");
  (void)client.reply(request, control::Done{});
}

}  // namespace rrdma::daemon
