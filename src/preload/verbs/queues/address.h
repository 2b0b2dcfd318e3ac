// Converts address attributes of the ABI to the path requests of nic/.
#pragma once

#include <infiniband/verbs.h>

#include "nic/process/runtime.h"
#include "preload/verbs/device/context.h"

namespace rrdma::verbs {

// Fills everything except the QPNs. Returns 0, or an errno that was explained.
int path_request_of(const char* call, const Context& context, const ibv_ah_attr& attr,
                    nic::PathRequest& request);

// Finds the MAC address of a GID; `vlan` may be null. Returns 0, or an errno that was explained.
int resolve_ethernet(Context& context, const wire::Gid& gid, std::uint8_t* mac, std::uint16_t* vlan);

}  // namespace rrdma::verbs
