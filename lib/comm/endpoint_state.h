// EndpointState: the state behind an Endpoint: its queue pair, its two halves, credits and the end.
//
// Requests are posted in order. A request that lacks a send queue entry (send_half.h) or a credit (credits.h)
// waits, and all later ones wait behind it.
//
// Teardown. The queue pair enters the error state and a last request marks the end of the send queue. The
// reactor holds the endpoint until the marker and all receives have completed.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/comm/address.h"
#include "lib/comm/closing.h"
#include "lib/comm/credits.h"
#include "lib/comm/hello.h"
#include "lib/comm/pool_state.h"
#include "lib/comm/reactor.h"
#include "lib/comm/receive_half.h"
#include "lib/comm/send_half.h"
#include "rrdma/comm/endpoint.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class WindowState;

class EndpointState final : public Resident, public CmTarget, public Settler {
 public:
  enum class Phase : std::uint8_t {
    kIdle,
    kLookingUp,
    kResolving,
    kRouting,
    kConnecting,
    kAccepting,
    kOpen,
    kDraining,
    kGone
  };

  EndpointState(Ref<Reactor> reactor, const Profile& profile, std::string hello);
  ~EndpointState() override;

  // Life cycle: endpoint_life.cc.
  void connect(Opener* opener, const std::string& address);
  void accept(Opener* opener, rdma_cm_id* id, const Hello& peer, const rdma_conn_param& request);
  void forsake();  // the opener no longer waits
  void handle_event(const rdma_cm_event& event) override;
  void shut_down() override;
  [[nodiscard]] bool lingering() const override;
  void handle_gone();  // the user destroyed the last handle
  void start_close();
  void abort(Code code);

  // Sending: endpoint_send.cc.
  void begin(Transfer* transfer);
  bool try_send(std::span<const std::byte> octets);
  void withdraw(Transfer* transfer) noexcept;
  void settle() override;

  // Receiving: endpoint_receive.cc.
  void begin(Receiving* receiving);
  Message try_receive();
  void put_back(ReceiveSlot* slot);
  void release(ReceiveSlot* slot);

  // Closing.
  void begin(Settling* settling);

  [[nodiscard]] const Ref<Reactor>& reactor() const { return reactor_; }
  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool usable() const { return phase_ == Phase::kOpen && !closing_.either(); }
  [[nodiscard]] Error error_for(Code code, During during, int detail) const;
  [[nodiscard]] const std::shared_ptr<const std::string>& peer_name() const { return peer_name_; }
  [[nodiscard]] const std::string& local_name() const { return local_name_; }
  [[nodiscard]] const Hello& peer_hello() const { return peer_hello_; }
  [[nodiscard]] std::uint32_t inline_limit() const { return inline_limit_; }
  [[nodiscard]] std::uint32_t credits() const { return credits_.ours(); }
  [[nodiscard]] const EndpointCounters& counters() const { return counters_; }
  [[nodiscard]] const Profile& profile() const { return profile_; }

 private:
  struct Request;
  class Alarm final : public Timer {
   public:
    Alarm(EndpointState* endpoint, void (EndpointState::*call)()) : endpoint_(endpoint), call_(call) {}
    void expire() override { (endpoint_->*call_)(); }

   private:
    EndpointState* endpoint_;
    void (EndpointState::*call_)();
  };

  // Life cycle.
  Result<void> make_queues();
  Result<void> create_queue_pair(std::uint32_t send_entries);
  void look_up(const std::string& address);
  void resolve(const SocketAddress& target);
  void handle_route();
  void handle_established(const rdma_cm_event& event);
  void handle_refusal(const rdma_cm_event& event);
  void fail_opening(Error error);
  void take_names();
  void disconnect();
  // Enters the draining phase. Queued requests fail now; posted requests fail at their completion.
  void break_off(Code code, int detail);
  void break_off(const ibv_wc& wc);
  void fail_queued();
  void fail_posted(Code code, int detail);
  void fail_receivers();
  void post_marker();
  void check_drained();
  void finish_drain();
  void leave();
  void destroy_queue_pair();
  void close_acknowledged();
  void finish_settlers();
  void stay_behind();
  void start_linger();
  void probe();
  void probe_answered();
  void set_probe_alarm(std::chrono::milliseconds after);
  void linger_over();

  // Sending.
  [[nodiscard]] bool can_post(const Transfer& transfer) const;
  [[nodiscard]] bool fits(Transfer& transfer);
  bool makes_window(Transfer& transfer);
  bool copy_octets(Transfer& transfer);
  void prepare(Transfer& transfer, Request& request);
  void sign_silent(ibv_send_wr& wr);
  bool prepare_send(Transfer& transfer, Request& request);
  void prepare_one_sided(const Transfer& transfer, ibv_send_wr& wr);
  void fill_header(std::byte* at, MessageKind kind, std::size_t length);
  void post_one(Transfer& transfer);
  void post_queued();
  bool post_control(Posting::Kind kind);
  bool post(ibv_send_wr* first);
  static void send_arrived(Completion* completion, const ibv_wc& wc);
  static void silent_arrived(Completion* completion, const ibv_wc& wc);
  void end_posting(Posting* posting, const ibv_wc& wc);
  void give_credits();

  // Receiving.
  static void receive_arrived(Completion* completion, const ibv_wc& wc);
  void take_message(ReceiveSlot* slot, const ibv_wc& wc);
  void deliver(ReceiveSlot* slot);
  bool post_released();
  [[nodiscard]] Error end_of_messages(During during) const;

  Ref<Reactor> reactor_;
  Profile profile_;
  std::string hello_;
  Hello peer_hello_;
  std::shared_ptr<const std::string> peer_name_;
  std::string local_name_;
  rdma_cm_id* id_ = nullptr;
  ibv_qp* queue_pair_ = nullptr;
  CompletionShard* shard_ = nullptr;
  std::uint32_t shard_entries_ = 0;
  Opener* opener_ = nullptr;

  // Sending.
  SendHalf send_;
  Posting silent_;  // wr_id of sends without a completion
  Buffer scratch_;  // of the send half
  std::uint32_t inline_limit_ = 0;
  std::uint32_t peer_limit_ = 0;
  Credits credits_;
  List<WindowState> windows_;  // bound through this queue pair, or about to be

  // Receiving.
  ReceiveHalf receive_;
  Buffer ring_;  // of the receive half

  // Closing and teardown.
  List<Settling> settlers_;
  Code reason_ = Code::kClosed;
  int reason_detail_ = 0;
  Phase phase_ = Phase::kIdle;
  Closing closing_;
  bool marker_done_ = false;
  bool left_ = false;
  bool heard_ = false;  // since the last tick of the probe alarm
  bool probing_ = false;
  std::uint32_t silent_ticks_ = 0;  // since a probe was due
  std::uint64_t passed_ = 0;        // CompletionShard::passed at the last silent tick
  Alarm probe_alarm_{this, &EndpointState::probe};
  Alarm linger_alarm_{this, &EndpointState::linger_over};
  EndpointCounters counters_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
