// Responder: requests that arrive at a connected QP (RC, UC, XRC). The checks follow the order of the
// specification: sequence, opcode, rights, resources, length, key; then execution and the answer. Every step
// returns one verdict. Nothing is written before all checks of its packet have passed.
#pragma once

#include "transport/core.h"

namespace rrdma::transport {

// True if a plain ACK is due that may travel with a request: on lossless paths whose frames carry more than
// one packet.
[[nodiscard]] inline bool ack_may_ride(const QueuePair& qp) {
  return qp.resp.answer_due && qp.path.lossless && qp.train_octets > qp.mtu && qp.type == QpType::kRc &&
         wire::Aeth{.syndrome = qp.resp.answer_syndrome}.is_ack() && !qp.responses.any_pending();
}

class Responder {
 public:
  Responder(Core& core, QueuePair& qp, Instant now) : core_(core), qp_(qp), resp_(qp.resp), now_(now) {}

  void handle(const wire::TransportPacket& packet);
  SendVerdict send_next(objects::FrameSink& sink);

 private:
  // The outcome of a packet in sequence. One word, because three bytes would be stored one by one and loaded
  // together: such a load waits for the payload that was stored before.
  class Verdict {
   public:
    // kEnd: the message is acknowledged, and this QP is in error after it.
    enum class Kind : std::uint8_t { kAccept, kNotReady, kRefuse, kEnd };
    constexpr Verdict() = default;
    constexpr Verdict(Kind kind, wire::NakCode nak = wire::NakCode::kInvalidRequest,
                      objects::Cause cause = objects::Cause::kNone)
        : word_(static_cast<std::uint32_t>(kind) | static_cast<std::uint32_t>(nak) << 8 |
                static_cast<std::uint32_t>(cause) << 16) {}
    [[nodiscard]] bool accepts() const { return kind() == Kind::kAccept; }
    [[nodiscard]] Kind kind() const { return static_cast<Kind>(word_ & 0xff); }
    [[nodiscard]] wire::NakCode nak() const { return static_cast<wire::NakCode>(word_ >> 8 & 0xff); }
    [[nodiscard]] objects::Cause cause() const { return static_cast<objects::Cause>(word_ >> 16); }

   private:
    std::uint32_t word_ = 0;
  };
  static Verdict refuse(wire::NakCode nak, objects::Cause cause) {
    return {Verdict::Kind::kRefuse, nak, cause};
  }

  void handle_reliable(const wire::TransportPacket& packet);
  void handle_unreliable(const wire::TransportPacket& packet);
  bool take_in_order(const wire::TransportPacket& packet);
  void out_of_sequence();
  void keep_early(const wire::TransportPacket& packet);
  bool place_early(const wire::TransportPacket& packet);
  [[nodiscard]] bool tells_arrivals() const;
  SendVerdict send_arrivals(objects::FrameSink& sink);
  void handle_duplicate(const wire::TransportPacket& packet);
  void replay_read(const wire::TransportHeaders& headers);

  Verdict execute(const wire::TransportPacket& packet);
  Verdict check_opcode(const wire::OpcodeShape& shape) const;
  Verdict check_rights(const wire::OpcodeShape& shape) const;
  Verdict check_length(const wire::OpcodeShape& shape, std::size_t length) const;
  Verdict execute_send(const wire::TransportPacket& packet, const wire::OpcodeShape& shape);
  Verdict execute_write(const wire::TransportPacket& packet, const wire::OpcodeShape& shape);
  Verdict execute_read(const wire::TransportHeaders& headers);
  Verdict find_word(wire::RKey rkey, std::uint64_t address, std::uint32_t need,
                    objects::AccessVerdict& word) const;
  Verdict execute_atomic(const wire::TransportHeaders& headers);
  Verdict execute_flush(const wire::TransportHeaders& headers);
  Verdict execute_atomic_write(const wire::TransportPacket& packet);
  Verdict select_shared_queue(const wire::TransportHeaders& headers);
  Verdict take_receive();
  Verdict accept_part(const wire::TransportPacket& packet, const wire::OpcodeShape& shape);
  void complete_message(const wire::TransportPacket& packet, const wire::OpcodeShape& shape);
  void give_up_message();

  void answer(std::uint8_t syndrome, wire::Psn psn);
  // All packets up to `last` are delivered. Written before the program can see the message. The program may
  // end at once, and its peer or the daemon then uses this answer (wire/last_answer.h).
  void write_last_answer(wire::Psn last, std::uint32_t msn);
  void fail_receive(const Verdict& verdict);
  static objects::Status status_of_receive(const Verdict& verdict);
  void send_nak(const Verdict& verdict);
  void end_after(const wire::TransportPacket& packet, const Verdict& verdict);
  Response* new_response(wire::Kind kind, std::uint32_t packets);
  SendVerdict send_response(Response& response, objects::FrameSink& sink);
  objects::Cause add_response(const Response& response, const objects::AccessVerdict& access,
                              std::uint32_t length, objects::Frame& frame);
  SendVerdict send_answer(objects::FrameSink& sink);
  void emit(objects::Frame& frame, objects::FrameSink& sink, wire::Step step, wire::Psn psn,
            std::uint32_t msn, const std::uint64_t* atomic_original,
            std::uint8_t syndrome = wire::kSyndromeAckNoCredits);

  Core& core_;
  QueuePair& qp_;
  ResponderState& resp_;
  Instant now_;
  const wire::TransportPacket* packet_ = nullptr;  // being handled
  bool placed_ = false;                            // its payload was placed when it arrived early
  bool receive_told_ = false;                      // a receive request failed with it and reports the reason
};

}  // namespace rrdma::transport
