// Multicast groups of UD QPs, for code that destroys QPs.
#pragma once

namespace rrdma::verbs {

struct Qp;

// Detaches the QP from all its groups.
void leave_groups(Qp& qp);

}  // namespace rrdma::verbs
