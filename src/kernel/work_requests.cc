#include "kernel/work_requests.h"

#include <rrdma_abi.h>

#include <algorithm>
#include <cstring>

namespace rrdma::kernel {
namespace {

using objects::SendOpcode;

constexpr std::uint32_t kFlagsKnown =
    objects::kSendFence | objects::kSendSignaled | objects::kSendSolicited | objects::kSendInline;
constexpr std::uint8_t kNetworkIpv4 = 1;
constexpr std::uint32_t kAtomicWordOctets = 8;
constexpr std::size_t kIpv4At = 4, kIpv6At = 8;  // in sockaddr_in, sockaddr_in6

objects::Sge sge_of(const RxeSge& from, std::uint32_t grant_key) {
  const bool granted = grant_key != 0 && from.lkey == RRDMA_GRANT_KEY;
  return {.address = from.address, .length = from.length, .lkey = {granted ? grant_key : from.lkey}};
}

// False if the list is longer than the queue's.
template <std::size_t N>
bool read_list(const SlotCopy& slot, std::size_t at, std::uint32_t count, const QueueLimits& limits,
               std::array<objects::Sge, N>& list) {
  if (count > limits.sges || count > N || at + count * sizeof(RxeSge) > slot.size()) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    RxeSge sge;
    std::memcpy(&sge, slot.data() + at + i * sizeof sge, sizeof sge);
    list[i] = sge_of(sge, limits.grant_key);
  }
  return true;
}

bool read_operands(const RxeSend& from, bool datagram, objects::SendEntry& entry) {
  switch (entry.opcode) {
    case SendOpcode::kSend:
    case SendOpcode::kSendImmediate:
      if (datagram) {
        entry.datagram.qkey = from.datagram.remote_qkey;
        entry.datagram.remote_qpn = from.datagram.remote_qpn & wire::kMask24;
      }
      return true;
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kLocalInvalidate: return true;
    case SendOpcode::kBindWindow:
      entry.rkey = {from.registration.key};
      entry.bind = {};
      entry.bind.window_key = from.registration.window_key;
      entry.bind.region_key = from.registration.region;
      entry.bind.address = from.registration.address;
      entry.bind.length = from.registration.length;
      entry.bind.access = from.registration.access & ~std::uint32_t{objects::kLocalWrite};  // as rxe
      return true;
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImmediate:
    case SendOpcode::kRead:
    case SendOpcode::kAtomicWrite:
      entry.remote_address = from.rdma.remote_address;
      entry.rkey = {from.rdma.rkey};
      return true;
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd:
      entry.remote_address = from.atomic.remote_address;
      entry.rkey = {from.atomic.rkey};
      entry.atomic = {from.atomic.compare_add, from.atomic.swap};
      return true;
    default: return false;
  }
}

wire::Gid gid_of_socket(const std::uint8_t* socket, bool ipv4) {
  wire::Gid gid;
  if (ipv4)
    return wire::gid_of_ipv4(
        {socket[kIpv4At], socket[kIpv4At + 1], socket[kIpv4At + 2], socket[kIpv4At + 3]});
  std::copy_n(socket + kIpv6At, gid.octets.size(), gid.octets.begin());
  return gid;
}

}  // namespace

bool parse_send(SlotCopy& slot, bool datagram, const QueueLimits& limits, ParsedSend& to) {
  RxeSend from;
  std::memcpy(&from, slot.data(), sizeof from);
  objects::SendEntry& entry = to.request.entry;
  entry = {};
  entry.wr_id = from.wr_id;
  if (from.opcode > static_cast<std::uint32_t>(SendOpcode::kSendInvalidate) &&
      from.opcode != static_cast<std::uint32_t>(SendOpcode::kAtomicWrite))
    return false;
  entry.opcode = static_cast<SendOpcode>(from.opcode);
  entry.flags = static_cast<std::uint8_t>(from.send_flags & kFlagsKnown);
  entry.immediate_or_key = from.immediate_or_key;
  if (!read_operands(from, datagram, entry)) return false;
  if (entry.opcode == SendOpcode::kLocalInvalidate || entry.opcode == SendOpcode::kBindWindow) {
    entry.flags &= static_cast<std::uint8_t>(~objects::kSendInline);
    to.request.list = {};
    return true;
  }
  if (entry.opcode == SendOpcode::kAtomicWrite) {
    // The word is where inline data would be, whatever the flags say.
    entry.flags |= objects::kSendInline;
    from.dma.length = kAtomicWordOctets;
  }
  if (entry.is_inline()) {
    if (from.dma.length > limits.inline_octets || sizeof from + from.dma.length > slot.size()) return false;
    to.list[0] = {.address = reinterpret_cast<std::uintptr_t>(slot.data() + sizeof from),
                  .length = from.dma.length,
                  .lkey = {}};
    to.request.list = std::span(to.list).first(from.dma.length != 0 ? 1 : 0);
    return true;
  }
  if (!read_list(slot, sizeof from, from.dma.num_sge, limits, to.list)) return false;
  to.request.list = std::span(to.list).first(from.dma.num_sge);
  return true;
}

void parse_receive(SlotCopy& slot, const QueueLimits& limits, ParsedReceive& to) {
  RxeReceive from;
  std::memcpy(&from, slot.data(), sizeof from);
  to.wr_id = from.wr_id;
  to.count = from.dma.num_sge;
  if (read_list(slot, sizeof from, from.dma.num_sge, limits, to.list)) return;
  to.count = 1;
  to.list[0] = {.address = 0, .length = ~0u, .lkey = {}};
}

DatagramRoute route_of(const RxeAddress& address) {
  DatagramRoute route{.flow_label = address.flow_label & 0xfffffu,
                      .hop_limit = address.hop_limit,
                      .traffic_class = address.traffic_class};
  std::copy_n(address.remote, route.remote.octets.size(), route.remote.octets.begin());
  route.local = gid_of_socket(address.local_socket, address.network_type == kNetworkIpv4);
  return route;
}

}  // namespace rrdma::kernel
