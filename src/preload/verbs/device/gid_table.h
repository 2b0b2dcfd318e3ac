// Converts GIDs between the ABI and the layers below.
#pragma once

#include <infiniband/verbs.h>

#include "host/device.h"
#include "wire/gid.h"

namespace rrdma::verbs {

wire::Gid gid_of(const ibv_gid& gid);
// -1 if the port has no such GID.
int find_gid_index(const host::Device& device, const wire::Gid& gid);

}  // namespace rrdma::verbs
