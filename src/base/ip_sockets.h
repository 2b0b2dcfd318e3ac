// IpSockets: one socket for each IP family. It is invalid if the host lacks that family.
#pragma once

#include "base/owned_fd.h"

namespace rrdma {

struct IpSockets {
  OwnedFd v4;
  OwnedFd v6;
};

}  // namespace rrdma
