// The paths of the rpc methods that this process serves or calls, "store.Store/Get". Packets contain only
// numbers for them, so captures record the paths (link/capture_link.h).
#pragma once

#include "base/name_list.h"

namespace rrdma::host {

inline NameList& method_names() {
  static constinit NameList names;
  return names;
}

}  // namespace rrdma::host
