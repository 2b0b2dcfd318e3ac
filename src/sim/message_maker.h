// MessageMaker: creates and posts one random request of an endpoint, or two that belong together. Every
// request takes the memory that it needs from the arenas of both hosts, so no two requests in flight can
// explain the same byte. False means that memory was lacking and nothing was posted.
#pragma once

#include <span>

#include "sim/endpoint.h"

namespace rrdma::sim {

class MessageMaker {
 public:
  MessageMaker(Endpoint& endpoint, Instant now);

  // With `provoke`, the request is a deliberate error.
  bool make(Operation operation, bool provoke);

 private:
  bool make_send(objects::SendOpcode opcode, bool bad_key);
  bool make_invalidate();
  bool make_write(objects::SendOpcode opcode, bool bad_key);
  bool make_unreliable_write(Message& message, bool bad_key);
  bool make_read();
  bool make_atomic(objects::SendOpcode opcode);
  bool make_flush();
  bool make_local_invalidate();
  bool make_bind();
  bool make_write_read_back();
  bool make_read_then_write();
  bool make_read_then_send();
  bool make_wrong();
  void spoil(Message& message);
  bool make_datagram(Operation operation, bool provoke);

  std::uint32_t pick_length();
  Message& start(objects::SendOpcode opcode, std::uint32_t length);
  bool take_local(Message& message, std::uint32_t pool, std::uint32_t length);
  bool carry(Message& message);
  bool aim(Message& message, std::uint32_t alignment);
  bool aim_read(Message& message);
  void spoil_local(Message& message);
  void give_up(Message& message);
  bool post(Message& message);

  Endpoint& endpoint_;
  const TrafficPlan& plan_;
  Site& site_;
  Exchange& exchange_;
  Prng& prng_;
  Instant now_;
  objects::SendEntry entry_;
  Site::SgeArray sges_;
  std::span<const objects::Sge> list_;
};

}  // namespace rrdma::sim
