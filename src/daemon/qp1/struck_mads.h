// StruckMads: messages of the connection manager that faults on purpose take away, or answer with a REJ in the place of the
// program (fault_rules.h says which).
#pragma once

#include "daemon/fault_rules.h"
#include "daemon/qp1/mad_port.h"

namespace rrdma::daemon {

class StruckMads {
 public:
  // REQUIRES: both outlive this.
  StruckMads(MadPort& port, FaultRules& rules);

 private:
  [[nodiscard]] bool admits(const cm::MadAddresses& addresses, Octets mad);

  MadPort& port_;
  FaultRules& rules_;
};

}  // namespace rrdma::daemon
