// InjectedMads: messages of the connection manager that faults on purpose take away, or answer with a REJ in the place of the
// program, and connections that they keep in TIMEWAIT (fault_rules.h says which).
#pragma once

#include "daemon/fault_rules.h"
#include "daemon/qp1/cm_service.h"
#include "daemon/qp1/mad_port.h"

namespace rrdma::daemon {

class InjectedMads {
 public:
  // REQUIRES: all outlive this.
  InjectedMads(MadPort& port, ConnectionService& connections, FaultRules& rules);

 private:
  [[nodiscard]] bool admits(const cm::MadAddresses& addresses, Octets mad);

  MadPort& port_;
  const ConnectionService& connections_;
  FaultRules& rules_;
};

}  // namespace rrdma::daemon
