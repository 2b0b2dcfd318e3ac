// Paths: how a peer is reached: by shared memory, by UDP or through the daemon. A peer that is a process of
// this host and user, and takes shared memory as we do, is reached by shared memory; both ends decide by the same facts,
// so the two directions of a connection use the same kind of link. Everybody else is reached by UDP; datagrams to
// this host where there is no network, through the daemon.
//
// Threads: any, without the lane's lock: it asks the daemon.
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
  // All outlive this. `peers` is null where there is no shared memory.
  Paths(const Settings& settings, LaneLinks& links, ShmPeers* peers, control::DaemonClient& daemon)
      : settings_(settings), links_(links), peers_(peers), daemon_(daemon) {}

  [[nodiscard]] Result<objects::Path, Problem> resolve(const host::Device& device,
                                                       const PathRequest& request);

 private:
  // True if the peer is a process of this host that takes shm; then the path is complete.
  [[nodiscard]] Result<bool, Problem> try_shm(const PathRequest& request, objects::Path& path);
  [[nodiscard]] Result<void, Problem> choose_udp(const PathRequest& request, objects::Path& path);
  // What the process behind a connected QP is, as far as that is known now.
  [[nodiscard]] std::uint8_t features_of(const PathRequest& request, const objects::Path& path);

  const Settings& settings_;
  LaneLinks& links_;
  ShmPeers* const peers_;
  control::DaemonClient& daemon_;
};

}  // namespace rrdma::nic
