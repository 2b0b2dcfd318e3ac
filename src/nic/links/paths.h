// Paths: chooses how to reach a peer: shared memory, UDP or the daemon. A process of this host and user that
// accepts shared memory, as we do, is reached by shared memory. Both ends decide by the same facts, so both
// directions of a connection use the same kind of link. Other peers are reached by UDP. Datagrams within this
// host go through the daemon if there is no network.
//
// Threads: any, without the lane's lock, because it asks the daemon.
#pragma once

#include "base/problem.h"
#include "base/result.h"
#include "control/client/daemon_client.h"
#include "host/device.h"
#include "nic/links/lane_links.h"
#include "nic/links/shm_peers.h"
#include "nic/settings.h"

namespace rrdma::nic {

// The parameters for resolving an address vector.
struct PathRequest {
  wire::Gid remote;
  std::uint32_t local_gid_index = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  wire::Qpn local_qpn;
  wire::Qpn remote_qpn;   // connected QPs; decides whether the peer is a process of this host
  bool datagram = false;  // an address handle: remote_qpn is not known yet
};

class Paths {
 public:
  // All must outlive this object. `peers` is null without shared memory.
  Paths(const Settings& settings, LaneLinks& links, ShmPeers* peers, control::DaemonClient& daemon)
      : settings_(settings), links_(links), peers_(peers), daemon_(daemon) {}

  [[nodiscard]] Result<objects::Path, Problem> resolve(const host::Device& device,
                                                       const PathRequest& request);

 private:
  // True if the peer is a process of this host that accepts shm; then the path is complete.
  [[nodiscard]] Result<bool, Problem> try_shm(const PathRequest& request, objects::Path& path);
  [[nodiscard]] Result<void, Problem> choose_udp(const PathRequest& request, objects::Path& path);
  // The features of the process behind a connected QP, as far as they are known now.
  [[nodiscard]] std::uint8_t features_of(const PathRequest& request, const objects::Path& path);

  const Settings& settings_;
  LaneLinks& links_;
  ShmPeers* const peers_;
  control::DaemonClient& daemon_;
};

}  // namespace rrdma::nic
