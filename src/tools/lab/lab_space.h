// The namespaces of a lab. An ordinary user makes them: one user namespace in which he is root, and in it a mount and a
// process namespace for the lab and a network and a host name for each node. The first process of the process namespace
// dies with the command that made the lab, and everything in the lab with it: nothing is left, whatever ends it.
//
//   rrdma lab (outside)  ── PR_SET_PDEATHSIG ──>  process 1 of the lab  ──>  a holder for each node, programs
//
// What those who join later must know lies in the lab's own /mnt (a tmpfs): the topology, the holders, the links that are
// cut. From outside the lab is found by a socket with an abstract name, which says the number of process 1.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/lab/lab_network.h"
#include "tools/lab/topology.h"

namespace rrdma::tools {

struct LabProblem {
  std::string sentence;
  std::string hint;
};

struct LabState {
  Topology topology;
  NodeHolders holders;
  std::set<std::size_t> cut;     // links
  bool links_by_faults = false;  // delay, loss and ecn are link_faults.h's: the kernel cannot
};

// Makes the lab and runs `inside` as its process 1, once all is up; returns the status that `inside` returned. Refuses where
// the user has a lab already.
[[nodiscard]] Result<int, LabProblem> run_lab(const Topology& topology,
                                              const std::function<int(const LabState&)>& inside);

// Takes this process into the lab: its user, mounts and processes (children only). Nothing to do for one that is inside.
[[nodiscard]] Result<LabState, LabProblem> join_lab();
// REQUIRES: joined.
[[nodiscard]] bool enter_node(const LabState& state, std::size_t node);
// For those who come later.
void keep_cuts(const LabState& state);

}  // namespace rrdma::tools
