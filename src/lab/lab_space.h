// The namespaces of a lab, created by an ordinary user: one user namespace in which the user is root, with a
// mount and a PID namespace for the lab, and a network and a UTS namespace for each node. Process 1 of the
// PID namespace dies with the command that created the lab, and all processes in the lab die with it. Nothing
// is left behind.
//
//   rrdma lab (outside)  ── PR_SET_PDEATHSIG ──>  process 1 of the lab  ──>  a holder for each node, programs
//
// The data for later commands is in the lab's own /mnt (a tmpfs): the topology, the holders, and the links
// that are cut. From outside, a socket in a directory that only the user may enter (control/names.h) returns
// the pid of process 1. A process that joins runs programs of the lab, so it verifies the answer: the user
// must hold the socket, and must own the namespaces of that pid.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/lab_network.h"
#include "lab/topology.h"

namespace rrdma::tools {

struct LabProblem {
  std::string sentence;
  std::string hint;
};

struct LabState {
  Topology topology;
  NodeHolders holders;
  std::set<std::size_t> cut;     // links
  bool links_by_faults = false;  // delay, loss and ecn by link_faults.h, because the kernel lacks netem
};

// Creates the lab and runs `inside` in it once all is up. Returns the status that `inside` returned. Fails if
// the user already has a lab.
[[nodiscard]] Result<int, LabProblem> run_lab(const Topology& topology,
                                              const std::function<int(const LabState&)>& inside);

// Moves this process into the user and mount namespaces of the lab, and its children into the PID namespace.
// Does nothing if it is already inside.
[[nodiscard]] Result<LabState, LabProblem> join_lab();
// Ends the lab of this user and all its programs.
[[nodiscard]] Result<void, LabProblem> end_lab();
// REQUIRES: joined.
[[nodiscard]] bool enter_node(const LabState& state, std::size_t node);
// Stores the cut links for later commands.
void keep_cuts(const LabState& state);

}  // namespace rrdma::tools
