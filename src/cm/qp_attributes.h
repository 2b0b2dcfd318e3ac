// What a connection tells its queue pair (values/qp_attributes.h), and when it can.
#pragma once

#include "cm/connection.h"
#include "cm/values/qp_attributes.h"

namespace rrdma::cm {

// Whether a connection in this state can tell the attributes of the step.
[[nodiscard]] bool attributes_known(State state, QpStep step);
[[nodiscard]] QpAttributes attributes_of(const Connection& connection);

}  // namespace rrdma::cm
