// InjectedMads: applies fault rules to messages of the connection manager: drops them, answers with a REJ in
// place of the program, or keeps connections in TIMEWAIT (fault_rules.h decides).
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
