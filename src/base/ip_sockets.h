// IpSockets: one socket for each family of IP. An invalid one is a family that is not there.
#pragma once

#include "base/owned_fd.h"

namespace rrdma {

struct IpSockets {
  OwnedFd v4;
  OwnedFd v6;
};

}  // namespace rrdma
