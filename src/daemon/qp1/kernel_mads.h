// KernelMads: the MADs of the kernel's own connection manager, for `rrdmad --kernel`. QP1 belongs to this
// daemon, and the kernel's device shares its addresses. A MAD that concerns no program here goes to the
// process that serves that device.
#pragma once

#include "daemon/client.h"
#include "daemon/counters.h"
#include "daemon/qp1/cm_service.h"
#include "daemon/qp1/mad_port.h"
#include "daemon/subsystem.h"

namespace rrdma::daemon {

class KernelMads final : public Subsystem {
 public:
  // REQUIRES: all outlive this.
  KernelMads(MadPort& mads, ConnectionService& connections, Counters& counters);

  Verdict handle_message(Client& client, control::Received& message) override;
  void handle_client_gone(Client& client) override;

 private:
  // False: nobody claims them, or it is behind.
  bool pass_on(const ReceivedMad& mad);

  MadPort& mads_;
  Counters& counters_;
  Client* claimant_ = nullptr;  // the latest
};

}  // namespace rrdma::daemon
