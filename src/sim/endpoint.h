// Endpoint: one QP of the workload and what the oracle knows about it. It posts random requests and checks
// every completion against the guarantees of the transport:
//
//   a signalled request completes once and in order; success means that the data is at the peer, once and
//   unaltered; errors occur only if one was provoked or the network excuses it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sim/message.h"
#include "sim/plan.h"
#include "sim/site.h"
#include "transport/engine.h"

namespace rrdma::sim {

class Exchange;
struct Connection;

class Endpoint {
 public:
  enum class State : std::uint8_t { kClosed, kConnecting, kReady, kBroken };

  Endpoint(Exchange& exchange, Connection& connection, Site& site, const TrafficPlan& plan, std::uint32_t psn,
           std::uint32_t messages);

  // Control.
  void learn_features();                  // of the peer, while the connection is in use
  void open();                            // to INIT, with receives posted
  void to_receive(const Endpoint& peer);  // to RTR; UD: no peer needed
  void to_send();
  // Removes the QP: destroys it, or resets and keeps it.
  void close(bool keep);
  // Both ends are closed: settles requests that were in flight and releases their slots.
  void settle();

  void turn(Instant now);
  void on_completion(const objects::Completion& completion);
  void on_event(transport::QpEvent event);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] transport::QueuePair* qp() const { return qp_; }
  [[nodiscard]] wire::Qpn qpn() const { return qpn_; }
  [[nodiscard]] bool done() const { return budget_ == 0 && outstanding_.empty(); }
  [[nodiscard]] bool idle() const { return outstanding_.empty(); }
  // When the oldest request that is not known to be complete was posted; kNever if there is none.
  [[nodiscard]] Instant oldest() const {
    return outstanding_.empty() ? kNever : outstanding_.front()->posted;
  }
  [[nodiscard]] std::string name() const;
  // One line for the user: the state of its queues and sequence numbers.
  [[nodiscard]] std::string standing() const;
  [[nodiscard]] Site& site() const { return site_; }
  [[nodiscard]] const TrafficPlan& plan() const { return plan_; }
  [[nodiscard]] bool posted_all() const { return budget_ == 0; }
  void stop_posting() { budget_ = 0; }
  // The world ends early: drops everything unchecked.
  void abandon();

  Endpoint* peer = nullptr;  // RC, UC; for UD: the current destination

 private:
  [[nodiscard]] std::uint8_t known_features() const;
  friend class MessageMaker;

  void violate(const std::string& what, const Message* message = nullptr);
  void post_receives();
  void post_burst(Instant now);
  void act_up(Provocation provocation);
  void drain_queue(Instant now);
  const objects::AddressHandle& handle_to(const Endpoint& to);

  // Completions of our requests.
  void on_send_completion(const objects::Completion& completion);
  void succeed(Message& message);
  void fail(Message& message, objects::Status status);
  [[nodiscard]] bool was_patient(const Message& message) const;
  [[nodiscard]] bool has_refused_invalidate();
  [[nodiscard]] bool excused(const Message& message, objects::Status status);
  void check_success(Message& message);
  void check_answer(Message& message);
  void release_local(Message& message);
  void release_target(Message& message);
  void end_window_use(Message& message);
  void end_window();
  void rest_target(const Message& message);

  // Completions of the peer's requests.
  void on_receive_completion(const objects::Completion& completion);
  void receive_failed(Receive& receive, const objects::Completion& completion);
  Message* match(const Receive& receive, const objects::Completion& completion);
  bool check_grh(const Receive& receive, const objects::Completion& completion);
  std::string check_received(const Message& message, const Receive& receive,
                             const objects::Completion& completion);
  [[nodiscard]] Content received_content(const Message& message, const Receive& receive) const;
  void end_receive(Receive& receive, const Content* partial);

  Exchange& exchange_;
  Connection& connection_;
  Site& site_;
  const TrafficPlan& plan_;
  State state_ = State::kClosed;
  transport::QueuePair* qp_ = nullptr;
  wire::Qpn qpn_;
  std::uint32_t first_psn_;
  std::uint32_t budget_;
  Instant next_post_;
  std::deque<Message*> outstanding_;  // posted, in order
  std::deque<Message*> incoming_;     // requests of the peer that take a receive and were not seen yet
  std::deque<Message*> limbo_;        // failed: their slots are settled when the connection closes
  std::deque<Receive> receives_;      // own receive queue, in order
  bool failed_ = false;               // the send side saw an error completion
  bool refused_invalidate_ = false;   // a receive request ended because its message named a wrong key
  bool drained_ = false;
  Instant resume_at_ = kNever;    // SQD until then
  std::uint32_t unsignaled_ = 0;  // posted since the last signalled one
  struct Handle {
    const Endpoint* to;
    objects::AddressHandle handle;
  };
  std::deque<Handle> handles_;  // UD; requests point to them, so they must not move

  // The window through which the peer may access our memory.
  struct Window {
    enum class State : std::uint8_t { kIdle, kBinding, kBound, kInvalidating } state = State::kIdle;
    objects::MemoryWindow* window = nullptr;
    Slot* slot = nullptr;
    std::uint32_t key = 0;
    std::uint32_t uses = 0;  // by the peer, in flight
    std::uint32_t stale_key = 0;
    bool zero_based = false;
  };
  Window window_;
  // UC: slots of the peer that we write to, each with its last content.
  struct Target {
    Slot* slot = nullptr;
    Content content;
    Instant used;  // when the last message was sent; kNever: not yet
  };
  std::vector<Target> unreliable_targets_;
};

struct Connection {
  const TrafficPlan* plan = nullptr;
  Endpoint* a = nullptr;
  Endpoint* b = nullptr;
  bool breaking = false;       // tear-down is scheduled
  bool error_excused = false;  // one side posted a request that the other must refuse
  std::uint32_t incarnation = 0;
};

}  // namespace rrdma::sim
