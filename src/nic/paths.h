// Paths: chooses how to reach a peer: shared memory, UDP or the daemon. A process of this host and user that accepts
// shared memory, as we do, is reached by shared memory. Both ends decide by the same facts, so both directions of a
// connection use the same kind of link. Other peers are reached by UDP. Datagrams within this host go through the
// daemon if there is no network.
//
// Threads: any, without the lane's lock, because it asks the daemon.
#pragma once

#include "base/problem.h"
#include "base/result.h"
#include "control/client/daemon_client.h"
#include "nic/lane/lane.h"
#include "nic/lane/lane_links.h"
#include "nic/settings.h"
#include "nic/shm_peers.h"

namespace rrdma::nic {

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
