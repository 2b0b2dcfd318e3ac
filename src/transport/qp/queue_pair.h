// QueuePair: the state of one QP. A plain record, ordered so that fields used for every packet lie together.
// The steps that change it live in requester.cc, completer.cc, responder.cc and datagram.cc, and state the
// invariants between its fields.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/instant.h"
#include "base/intrusive_list.h"
#include "objects/completion_queue.h"
#include "objects/memory.h"
#include "objects/work_queue.h"
#include "transport/qp/attributes.h"
#include "transport/qp/counters.h"
#include "transport/qp/failed_request.h"
#include "transport/qp/response_cache.h"
#include "transport/qp/timer_queue.h"
#include "transport/recovery/congestion.h"
#include "transport/recovery/flight_log.h"
#include "transport/recovery/reorder_buffer.h"
#include "transport/recovery/round_trip.h"
#include "wire/headers.h"

namespace rrdma::transport {

class LossRecovery;

// Outgoing requests. Invariant: una <= tx <= sent <= next, all within half of the PSN space. With
// SelectiveRepeat tx == sent and una <= executed <= sent.
struct RequesterState {
  std::uint64_t index = 0;                 // entry of the next packet
  std::uint64_t started = 0;               // entries below this one have PSNs
  wire::Psn una;                           // oldest unacknowledged PSN
  wire::Psn tx;                            // next PSN to send; GoBackN moves it back after a loss
  wire::Psn sent;                          // one past the highest PSN ever sent
  wire::Psn next;                          // first PSN not assigned to an entry
  const LossRecovery* recovery = nullptr;  // chosen when the QP connects
  std::uint32_t psns_max = 0;              // unacknowledged PSNs that the strategy can handle
  std::uint32_t flight_packets = 0;        // as counted in the engine's budget
  std::uint32_t since_ack_request = 0;     // packets since the last AckReq
  std::uint32_t direct_octets = 0;         // of the entry at `index`, moved by direct access so far
  bool direct_goes_on = false;             // a direct copy for the entry at `index` is unfinished
  std::uint8_t reads = 0;                  // READs and ATOMICs sent and not answered
  std::uint8_t retries_left = 0;
  std::uint8_t rnr_left = 0;
  std::uint8_t attempts = 0;  // since the last progress; QueuePair::attempts has times and reasons
  std::uint8_t backoff = 0;   // doublings of the early retransmission's delay
  bool waiting_rnr = false;   // until rnr_until
  bool repeating = false;     // the peer asked for `una` again, and it was sent again at repeated_at
  bool drained_told = false;
  objects::Cause failure = objects::Cause::kNone;  // of the entry at `index`, once oldest
  Instant rnr_until;
  Instant repeated_at;
  Instant ack_deadline = kNever;    // IBTA ack timeout: spends a retry
  Instant early_deadline = kNever;  // early retransmission: spends no retry
  Instant fails_at = kNever;        // the peer's process has ended
  RoundTrip round_trip;
  Congestion congestion;

  // GoBackN only.
  bool rewound_for_gap = false;  // acted on an implied NAK; ignore further ones until there is progress
  bool timing = false;           // the round trip of `timed`, sent at timed_since, is being measured
  wire::Psn timed;
  Instant timed_since;

  // SelectiveRepeat only.
  FlightLog log;
  wire::Psn executed;                // the peer has executed all requests before it
  Duration reorder_window;           // how much later than its successors a packet may arrive
  Instant oldest_under_way;          // lower bound on the send time of packets that may prove lost
  std::uint32_t repairs_needed = 0;  // necessary repairs in a row since the tolerance last changed
  std::uint8_t probe_copies = 0;     // additional copies of the next probe
  bool doubted = false;  // the last answer may refer to a probe's earlier copy: believe the next one
};

// Incoming requests and their answers.
struct ResponderState {
  wire::Psn expected;
  std::uint32_t msn = 0;
  wire::Kind message = wire::Kind::kUnknown;  // the message in progress: kSend, kWrite or none
  bool have_receive = false;                  // `receive` holds an entry
  bool nak_sent = false;  // a sequence NAK for this gap was sent: no more answers until packets are in order
  bool answer_due = false;    // an ACK or NAK is to be sent
  bool drop_message = false;  // UC: the rest of a broken message
  std::uint8_t answer_syndrome = 0;
  wire::Psn answer_psn;
  std::uint32_t offset = 0;   // bytes of the message so far
  wire::RKey rkey;            // WRITE in progress
  std::uint64_t address = 0;  // WRITE: start address of the message
  std::uint32_t length = 0;   // WRITE: DMA length
  objects::ReceiveEntry receive;
  std::uint32_t receive_length = 0;
  std::unique_ptr<objects::Sge[]> receive_list;
  ReorderBuffer early;  // enabled if the peer is RRDMA
  bool cnp_due = false;
  Instant cnp_allowed;
};

struct QueuePair {
  // Used for every packet.
  wire::Qpn qpn;
  QpType type = QpType::kRc;
  QpState state = QpState::kReset;
  bool signal_all = false;
  bool established_told = false;
  bool waits_for_budget = false;  // ready_hook is in the engine's waiting list
  std::uint16_t pkey = wire::kDefaultPKey;
  std::uint16_t device = 0;     // see QpInit
  std::uint16_t peer_port = 0;  // UDP source port that the peer has proved to own; 0: none yet
  std::uint32_t mtu = 256;
  std::uint32_t train_octets = 256;    // payload of one outgoing frame at most; a multiple of mtu
  std::uint32_t train_accepted = 256;  // payload of one incoming frame at most
  std::uint32_t timer_position = kNoTimer;
  wire::Qpn remote;
  std::uint32_t access_flags = 0;
  Counters* counters = nullptr;  // the engine's, for this device
  objects::ProtectionDomain* pd = nullptr;
  objects::CompletionQueue* send_cq = nullptr;
  objects::CompletionQueue* receive_cq = nullptr;
  objects::ReceiveQueue* shared_queue = nullptr;
  objects::ReceiveQueue* incoming = nullptr;  // shared_queue or &receive_queue
  ListHook ready_hook;
  ListHook unflushed_hook;
  RequesterState req;
  ResponderState resp;
  ResponseCache responses;

  // Used by control and errors only.
  objects::SendQueue send_queue;
  objects::ReceiveQueue receive_queue;
  objects::Path path;
  QpAttributes attributes;
  std::uint32_t port_mtu = 4096;  // UD: the longest datagram; set by nic/
  Duration ack_timeout;           // 0: never
  AttemptHistory attempts;
  void* owner = nullptr;                              // the verbs object that wraps it
  std::atomic<std::uint64_t>* last_answer = nullptr;  // a wire::LastAnswer, outlives us; may be null
  const void* xrc_domain = nullptr;                   // XRC targets: only queues of this domain are reachable
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t octets_sent = 0;
  std::uint64_t octets_received = 0;
  std::uint64_t packets_resent = 0;
  std::uint64_t packets_lost = 0;  // detected through later packets
  std::uint64_t probes = 0;
  std::uint64_t needless_repairs = 0;
  std::uint64_t rnr_naks = 0;
  std::uint64_t ack_timeouts = 0;
  std::uint64_t sequence_naks = 0;

  QueuePair(std::uint32_t send_entries, std::uint32_t send_sges, std::uint32_t inline_octets,
            std::uint32_t receive_entries, std::uint32_t receive_sges)
      : send_queue(send_entries, send_sges, inline_octets), receive_queue(receive_entries, receive_sges) {}

  // Counts what the device's counters and this queue pair both count.
  void count(std::uint64_t Counters::*all, std::uint64_t QueuePair::*own, std::uint64_t more = 1) {
    counters->*all += more;
    this->*own += more;
  }
  [[nodiscard]] bool reliable() const {
    return type == QpType::kRc || type == QpType::kXrcSend || type == QpType::kXrcReceive;
  }
  [[nodiscard]] bool can_send() const { return state == QpState::kReadyToSend || state == QpState::kDrain; }
  [[nodiscard]] bool can_receive() const {
    return state == QpState::kReadyToReceive || state == QpState::kReadyToSend || state == QpState::kDrain ||
           state == QpState::kSendError;
  }
  // The domain that a receive request's list is checked against: a shared queue has its own.
  [[nodiscard]] const objects::ProtectionDomain& receive_pd() const {
    return incoming->pd != nullptr ? *incoming->pd : *pd;
  }
  // Number of packets, and so PSNs, of a message of this length.
  [[nodiscard]] std::uint32_t packets_of(std::size_t length) const {
    return length <= mtu ? 1 : static_cast<std::uint32_t>((length + mtu - 1) / mtu);
  }
  [[nodiscard]] wire::Transport transport() const {
    switch (type) {
      case QpType::kRc: return wire::Transport::kReliableConnection;
      case QpType::kUc: return wire::Transport::kUnreliableConnection;
      case QpType::kUd: return wire::Transport::kUnreliableDatagram;
      case QpType::kXrcSend:
      case QpType::kXrcReceive: return wire::Transport::kExtendedReliableConnection;
    }
    return wire::Transport::kReliableConnection;
  }
};

}  // namespace rrdma::transport
