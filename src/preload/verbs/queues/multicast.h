// Multicast groups of UD QPs, for those who destroy QPs.
#pragma once

namespace rrdma::verbs {

struct Qp;

// Detaches the QP from all its groups.
void leave_groups(Qp& qp);

}  // namespace rrdma::verbs
