#include "nic/links/paths.h"

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "base/result_try.h"
#include "control/recognition_messages.h"
#include "host/addresses/gid_choice.h"
#include "wire/source_port.h"

namespace rrdma::nic {
namespace {

constexpr std::uint32_t kTrainOctets = 64 * 1024;

// The part that does not depend on the link.
Result<objects::Path, Problem> addresses_of(const host::Device& device, const PathRequest& request) {
  const std::vector<host::GidEntry> gids = device.gids();
  if (request.local_gid_index >= gids.size() || !gids[request.local_gid_index].valid) {
    return problem(ENODATA, formatted("sgid_index {} is empty on {}; {}.", request.local_gid_index,
                                      device.identity().name, host::usable_gids_text(gids, request.remote)));
  }
  if (request.remote.is_zero()) {
    return problem(
        EINVAL,
        "the destination GID (grh.dgid) is zero: RoCE needs an address there. A peer that names an empty "
        "GID index sends this one.");
  }
  objects::Path path;
  path.local = gids[request.local_gid_index].gid;
  path.remote = request.remote;
  path.flow_label = request.flow_label;
  // The kernel replaces a unicast path's hop limit by the route's on every RoCE device
  // (ib_resolve_unicast_gid_dmac), and programs rely on it: ibv_rc_pingpong sets 1 and crosses routers. The
  // default makes the socket take the route's.
  const bool chosen = request.remote.is_multicast() && request.hop_limit != 0;
  path.hop_limit = chosen ? request.hop_limit : objects::Path{}.hop_limit;
  path.traffic_class = request.traffic_class;
  path.service_level = request.service_level;
  path.local_gid_index = static_cast<std::uint8_t>(request.local_gid_index);
  return path;
}

}  // namespace

Result<objects::Path, Problem> Paths::resolve(const host::Device& device, const PathRequest& request) {
  auto addressed = addresses_of(device, request);
  if (!addressed) return addressed;
  objects::Path path = *addressed;
  const bool local = path.same_host = device.is_local_address(request.remote);
  if (local && !request.datagram && peers_ != nullptr) {
    auto by_shm = try_shm(request, path);
    RRDMA_TRY(by_shm);
    if (*by_shm) return path;
  }
  if (local && request.datagram && links_.udp() == nullptr) {
    path.link = kRelayLink;
    return path;
  }
  if (auto chosen = choose_udp(request, path); !chosen) return Failure{chosen.error()};
  return path;
}

Result<bool, Problem> Paths::try_shm(const PathRequest& request, objects::Path& path) {
  const control::Slot slot = control::slot_of_qpn(request.remote_qpn.value);
  auto owner = daemon_.look_up_slot(slot);
  RRDMA_TRY(owner);
  if (!owner->found || !owner->same_user || (owner->links & control::kLinkShm) == 0) return false;
  const control::Slot own_slot = control::slot_of_qpn(request.local_qpn.value);
  auto channel = peers_->open_channel(own_slot, slot, owner->token);
  RRDMA_TRY(channel);
  path.link = kShmLink;
  path.peer = channel->number;
  path.party = channel->party;
  path.lossless = !settings_.fault.any();
  if (!path.lossless && !settings_.strict && (owner->links & control::kLinkArrivals) != 0)
    path.features = objects::kFeatureArrivals;
  path.direct = settings_.direct_allowed() && (owner->links & control::kLinkDirect) != 0;
  // A peer that captures wants to see packets, not trains.
  path.train_octets =
      settings_.packets_only() || (owner->links & control::kLinkTrains) == 0 ? 0 : kTrainOctets;
  path.train_accepted = kTrainOctets;
  return true;
}

Result<void, Problem> Paths::choose_udp(const PathRequest& request, objects::Path& path) {
  if (links_.udp() == nullptr) {
    const control::NetworkState network = daemon_.network();
    return problem(ENETUNREACH, network.reason.empty() ? "this process has no network link."
                                                       : network.reason + " " + network.remedy);
  }
  path.link = kUdpLink;
  path.source_port = request.datagram ? wire::source_port_of_datagrams(request.local_qpn)
                                      : wire::source_port_of_connection(request.flow_label, request.local_qpn,
                                                                        request.remote_qpn);
  path.source_port = links_.udp()->source_port(path);
  if (path.source_port == 0) {
    return problem(EHOSTUNREACH,
                   "no packet can be sent from that source GID to that destination GID: they are not of the "
                   "same family.");
  }
  if (request.datagram) return {};
  const auto& strict_peers = settings_.strict_peers;
  path.strict = settings_.strict ||
                std::find(strict_peers.begin(), strict_peers.end(), path.remote) != strict_peers.end();
  path.features = features_of(request, path);
  path.one_source_port = (path.features & objects::kFeatureOnePort) != 0;
  if (path.strict) path.features = 0;
  return {};
}

// Any program of this host with a slot is RRDMA, whichever user runs it. It uses one source port for a QP and
// has it bound, so no other local process can send from there. Another host's daemon is asked, and more may
// be known later.
std::uint8_t Paths::features_of(const PathRequest& request, const objects::Path& path) {
  if (path.same_host) {
    const auto owner = daemon_.look_up_slot(control::slot_of_qpn(request.remote_qpn.value));
    if (!owner || !owner->found) return 0;
    return (owner->links & control::kLinkArrivals) != 0 ? objects::kOwnFeatures : objects::kFeatureOnePort;
  }
  if (path.strict) return 0;
  const auto peer = daemon_.request<control::PeerRecognised>(control::RecognisePeer{
      .local = path.local, .remote = path.remote, .interface_index = path.interface_index});
  return peer && peer->known ? peer->features : std::uint8_t{0};
}

}  // namespace rrdma::nic
