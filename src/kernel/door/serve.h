// serve(): the whole of `rrdmad --kernel`. Serves one device of rrdma.ko with the NIC of this process, until
// the device goes or the process is told to end.
#pragma once

#include <string>

namespace rrdma::kernel {

// `device`: the name after `rdma link add`. Waits until it exists. Returns the exit status.
int serve(const std::string& device);

}  // namespace rrdma::kernel
