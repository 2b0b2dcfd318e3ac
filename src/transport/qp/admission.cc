#include "transport/qp/admission.h"

#include "base/assert.h"

namespace rrdma::transport {
namespace {

// The top bit only distinguishes full from limited members; both match (IBTA 10.9.3).
constexpr std::uint16_t kPartitionMask = 0x7fff;

bool fits_type(const QueuePair& qp, wire::Opcode opcode) {
  // A congestion notification names no transport; any connected QP accepts it.
  if (opcode == wire::kCongestionNotification) return qp.type != QpType::kUd;
  if (opcode == wire::kArrivalMap) return qp.reliable();
  return opcode.transport() == qp.transport();
}

Admission admit_connected(const QueuePair& qp, const objects::PacketOrigin& origin) {
  if (origin.party != qp.path.party) return Admission::kWrongParty;
  if (origin.source != qp.path.remote) return Admission::kWrongSource;
  if (origin.destination != qp.path.local) return Admission::kWrongDestination;
  if (qp.peer_port != 0 && origin.source_port != 0 && origin.source_port != qp.peer_port)
    return Admission::kWrongPort;
  return Admission::kAdmitted;
}

}  // namespace

Admission admit(const QueuePair& qp, const wire::TransportHeaders& headers,
                const objects::PacketOrigin& origin) {
  const wire::Bth& bth = headers.bth;
  if (!fits_type(qp, bth.opcode)) return Admission::kWrongType;
  if ((bth.pkey & kPartitionMask) != (qp.pkey & kPartitionMask)) return Admission::kWrongPartition;
  if (!qp.can_receive()) return Admission::kWrongState;
  if (qp.type != QpType::kUd) return admit_connected(qp, origin);
  if (headers.deth.qkey != qp.attributes.qkey) return Admission::kWrongKey;
  return origin.party == qp.path.party ? Admission::kAdmitted : Admission::kWrongParty;
}

bool admitted(const QueuePair& qp, const wire::TransportHeaders& headers,
              const objects::PacketOrigin& origin) {
  const Admission admission = admit(qp, headers, origin);
  if (admission == Admission::kAdmitted) return true;
  ++count_of(*qp.counters, admission);
  return false;
}

bool reaches(const QueuePair& target, const objects::ReceiveQueue* queue) {
  return queue != nullptr && queue->completions != nullptr && queue->xrc_domain != nullptr &&
         queue->xrc_domain == target.xrc_domain;
}

std::uint64_t& count_of(Counters& counters, Admission refusal) {
  switch (refusal) {
    case Admission::kAdmitted: break;
    case Admission::kWrongType: return counters.dropped_wrong_type;
    case Admission::kWrongPartition: return counters.dropped_pkey;
    case Admission::kWrongState: return counters.dropped_qp_state;
    case Admission::kWrongKey: return counters.dropped_qkey;
    case Admission::kWrongParty: return counters.dropped_wrong_party;
    case Admission::kWrongSource: return counters.dropped_wrong_source;
    case Admission::kWrongDestination: return counters.dropped_wrong_destination;
    case Admission::kWrongPort: return counters.dropped_wrong_port;
  }
  RRDMA_ASSERT(refusal != Admission::kAdmitted);
  return counters.dropped_wrong_type;
}

}  // namespace rrdma::transport
