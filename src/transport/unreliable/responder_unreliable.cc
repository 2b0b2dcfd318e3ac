// The responder for unreliable connections (UC): it sends no answers and drops broken messages.
#include "transport/responder.h"

namespace rrdma::transport {

using wire::Kind;
using wire::OpcodeShape;
using wire::TransportPacket;

// A gap breaks the message in progress; the next FIRST or ONLY starts a new one. A receive request that a
// broken SEND had taken serves the next SEND.
void Responder::handle_unreliable(const TransportPacket& packet) {
  const OpcodeShape& shape = wire::shape_of(packet.headers.bth.opcode);
  if (packet.headers.bth.psn != resp_.expected) {
    ++qp_.counters->dropped_uc_gap;
    give_up_message();
  }
  resp_.expected = packet.headers.bth.psn;
  if (shape.starts_message) {
    resp_.drop_message = false;
    if (resp_.message != Kind::kUnknown) give_up_message();
    resp_.drop_message = false;
  }
  if (resp_.drop_message || (!shape.starts_message && resp_.message == Kind::kUnknown)) {
    resp_.expected = packet.headers.bth.psn + qp_.packets_of(packet.payload.size());
    resp_.drop_message = !shape.ends_message;
    return;
  }
  const wire::Psn before = resp_.expected;
  const Verdict verdict = execute(packet);
  if (verdict.accepts()) return;
  ++(verdict.kind() == Verdict::Kind::kNotReady ? qp_.counters->dropped_no_receive
                                                : qp_.counters->dropped_too_long);
  give_up_message();
  resp_.drop_message = !shape.ends_message;
  resp_.expected = before + qp_.packets_of(packet.payload.size());
}

void Responder::give_up_message() {
  resp_.message = Kind::kUnknown;
  resp_.offset = 0;
  resp_.drop_message = true;
}

}  // namespace rrdma::transport
