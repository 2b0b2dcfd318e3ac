// ScriptedDevice: an RDMA device that a fuzz target plays. It defines the calls of libibverbs and
// librdmacm that rrdma::comm uses; comm finds them in the program itself, before it looks into the
// libraries. The target decides what the peer sends, when requests complete, and how they fail.
//
// The device checks its user: memory of requests is registered, a queue holds what was reserved, and
// nothing is destroyed before what needs it. One thread.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "input.h"

namespace rrdma::fuzz {

using ScriptedBytes = std::span<const std::byte>;

// Aborts the target: its user or the target itself broke a rule.
void require(bool condition, const char* what);

// A request in the send queue.
struct ScriptedRequest {
  std::uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  bool signaled = false;
  std::vector<std::byte> octets;  // of a SEND or a WRITE
  std::vector<ibv_sge> into;      // of a READ or an atomic operation
  std::uint64_t remote_address = 0;
};

struct ScriptedQueue : ibv_cq {
  std::deque<ibv_wc> completions;
};

struct ScriptedPair : ibv_qp {
  std::deque<ScriptedRequest> sends;
  struct Receive {
    std::uint64_t id;
    ibv_sge into;
  };
  std::deque<Receive> receives;
  std::uint32_t send_room = 0, receive_room = 0;
  bool failed = false;
};

// A connection identifier and what its owner asked for.
struct ScriptedId : rdma_cm_id {
  enum class State { kNew, kListening, kAsked, kConnecting, kOpen, kOver };
  State state = State::kNew;
  std::vector<std::byte> told;  // private data of the owner's connect, accept or reject
  [[nodiscard]] ScriptedPair* pair() const { return static_cast<ScriptedPair*>(qp); }
};

class ScriptedDevice {
 public:
  static ScriptedDevice& the();

  // Everything was destroyed.
  void require_empty() const;
  [[nodiscard]] const std::vector<ScriptedId*>& ids() const { return ids_; }
  // Bytes of all registered memory.
  [[nodiscard]] std::size_t registered() const;
  // The first identifier in this state; null if there is none.
  [[nodiscard]] ScriptedId* find(ScriptedId::State state) const;

  // ---- the connection manager ----
  // A peer asks to connect. Null if nobody listens.
  ScriptedId* ask(ScriptedBytes hello);
  // The peer accepts, or the connection of an accepted identifier is established.
  void establish(ScriptedId& id, ScriptedBytes hello = {});
  void raise(ScriptedId& id, rdma_cm_event_type event, int status = 0, ScriptedBytes told = {});
  // Called for each identifier that is about to be destroyed.
  std::function<void(ScriptedId&)> leaving;

  // ---- queue pairs ----
  // Called for each posted request.
  std::function<void(ScriptedPair&, const ScriptedRequest&)> posted;
  // Requests complete at once, and successfully.
  bool automatic = true;
  // Completes the oldest requests. After an error the queue pair has failed, and all others are flushed.
  void complete(ScriptedPair& pair, std::size_t count, ibv_wc_status status = IBV_WC_SUCCESS);
  // A message of the peer arrives. False if no receive is posted.
  bool deliver(ScriptedPair& pair, ScriptedBytes octets, std::uint32_t source = 0);
  bool deliver_immediate(ScriptedPair& pair, std::uint32_t immediate);
  void fail(ScriptedPair& pair);

  // ---- for the calls ----
  struct Event : rdma_cm_event {
    std::vector<std::byte> octets;
  };
  void check(const ibv_sge& part, bool written) const;
  void finish(ScriptedPair& pair, const ScriptedRequest& request, ibv_wc_status status) const;

  std::vector<ScriptedId*> ids_;
  std::deque<Event*> events_;
  std::set<ScriptedPair*> pairs_;
  std::map<std::uint32_t, ibv_mr*> regions_;
  std::size_t others_ = 0;  // queues, domains, channels, address handles
  std::uint32_t next_key_ = 1;
  std::uint32_t next_number_ = 1;
  rdma_event_channel* channel_ = nullptr;
};

// The entry point of a target: the input drives a Machine, which leaves nothing on the device.
template <typename Machine>
int play_on_device(const std::uint8_t* data, std::size_t size) {
  Input input(Octets(data, size));
  {
    Machine machine(input);
    machine.run();
  }
  ScriptedDevice::the().require_empty();
  return 0;
}

}  // namespace rrdma::fuzz
