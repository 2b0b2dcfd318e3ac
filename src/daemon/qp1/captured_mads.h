// CapturedMads: tells programs that capture their packets of the messages of their connections. The daemon
// sends and receives these messages (QP1), so no link of a program carries them.
#pragma once

#include "daemon/captures.h"
#include "daemon/qp1/cm_service.h"
#include "daemon/qp1/mad_port.h"

namespace rrdma::daemon {

class CapturedMads {
 public:
  // REQUIRES: all outlive this.
  CapturedMads(MadPort& port, const ConnectionService& connections, const Captures& captures);

 private:
  void pass_on(const MadPort::SeenMad& seen) const;

  const ConnectionService& connections_;
  const Captures& captures_;
};

}  // namespace rrdma::daemon
