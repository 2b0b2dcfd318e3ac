// The queue pair attributes that a connection provides (values/qp_attributes.h), and the states in which it
// can.
#pragma once

#include "cm/connection.h"
#include "cm/values/qp_attributes.h"

namespace rrdma::cm {

// Whether a connection in this state knows the attributes of the step.
[[nodiscard]] bool attributes_known(State state, QpStep step);
[[nodiscard]] QpAttributes attributes_of(const Connection& connection);

}  // namespace rrdma::cm
