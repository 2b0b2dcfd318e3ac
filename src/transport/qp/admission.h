// Admission: whether a packet may reach a QP at all. Asked once for every packet, of whatever opcode, before
// anything of the QP changes: what is refused here leaves no trace but a counter.
//
// A connected QP hears one party on one link, under one pair of addresses. The link says who the party was
// (PacketOrigin), the path whom it was connected to: a source address alone is what anybody may write.
#pragma once

#include <cstdint>

#include "objects/frame.h"
#include "objects/work_queue.h"
#include "transport/qp/counters.h"
#include "transport/qp/queue_pair.h"
#include "wire/transport_packet.h"

namespace rrdma::transport {

enum class Admission : std::uint8_t {
  kAdmitted,
  kWrongType,         // the opcode is of another transport service
  kWrongPartition,    // P_Key
  kWrongState,        // the QP does not receive now
  kWrongKey,          // Q_Key of a datagram
  kWrongParty,        // came by another link, or from another process than the QP's peer
  kWrongSource,       // not the address of the peer
  kWrongDestination,  // not the address that the peer was told
  kWrongPort,         // not the UDP source port of a peer that keeps to one
};

[[nodiscard]] Admission admit(const QueuePair& qp, const wire::TransportHeaders& headers,
                              const objects::PacketOrigin& origin);

// The same, and a refusal is counted.
[[nodiscard]] bool admitted(const QueuePair& qp, const wire::TransportHeaders& headers,
                            const objects::PacketOrigin& origin);

// Whether requests that come in at an XRC target may take from this queue: only within one XRC domain.
[[nodiscard]] bool reaches(const QueuePair& target, const objects::ReceiveQueue* queue);

// Where refusals of this kind are counted. REQUIRES: not kAdmitted.
[[nodiscard]] std::uint64_t& count_of(Counters& counters, Admission refusal);

}  // namespace rrdma::transport
