// Admission: decides whether a packet may reach a QP. It runs once for every packet of any opcode, before any
// state of the QP changes. A refused packet only increments a counter.
//
// A connected QP accepts packets from one party on one link, under one pair of addresses. The link identifies
// the sending party (PacketOrigin) and the path names the connected one. A source address alone proves
// nothing, because anyone can forge it.
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
  kWrongType,         // the opcode belongs to another transport service
  kWrongPartition,    // P_Key
  kWrongState,        // the QP does not receive in its current state
  kWrongKey,          // Q_Key of a datagram
  kWrongParty,        // arrived on another link, or from a process that is not the QP's peer
  kWrongSource,       // not the peer's address
  kWrongDestination,  // not the address that the peer was given
  kWrongPort,         // not the UDP source port that the peer has proved to own
};

[[nodiscard]] Admission admit(const QueuePair& qp, const wire::TransportHeaders& headers,
                              const objects::PacketOrigin& origin);

// As admit(), and counts a refusal.
[[nodiscard]] bool admitted(const QueuePair& qp, const wire::TransportHeaders& headers,
                            const objects::PacketOrigin& origin);

// True if requests that arrive at an XRC target may take from this queue: only within one XRC domain.
[[nodiscard]] bool reaches(const QueuePair& target, const objects::ReceiveQueue* queue);

// The counter for this refusal. REQUIRES: not kAdmitted.
[[nodiscard]] std::uint64_t& count_of(Counters& counters, Admission refusal);

}  // namespace rrdma::transport
