// EndpointState: the state behind an Endpoint: its queue pair, waiters and credits.
//
// Sending. Requests are posted in order. A request that lacks a send queue entry or a credit waits, and all
// later ones wait behind it. A Posting is a posted request: it owns the buffer until the completion and
// refers to the waiter. Inline sends are complete when posted. Only some of them request a completion, which
// frees the entries of all requests before it.
//
// Receiving. A receive is posted, in use, or released. Released receives are reposted at the end of a turn and
// then owed to the peer (credits.h).
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
#include "rrdma/comm/endpoint.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

// Precedes each message; little-endian.
struct MessageHeader {
  std::uint8_t kind;
  std::uint8_t reserved;
  std::uint16_t credits;
  std::uint32_t length;
};
static_assert(sizeof(MessageHeader) == 8);
enum class MessageKind : std::uint8_t { kData = 1, kCredit = 2, kClose = 3 };

struct ReceiveSlot : Completion, Link {
  EndpointState* endpoint = nullptr;
  std::byte* data = nullptr;
  std::uint64_t sequence = 0;
  std::uint32_t length = 0;
  std::uint32_t immediate = 0;
  std::uint32_t loans = 0;
  bool has_immediate = false;
  bool counts = false;  // held an application message
};

class WindowState;

struct Posting : Completion {
  EndpointState* endpoint = nullptr;
  Transfer* waiter = nullptr;
  Buffer buffer;
  Ref<Counted> kept;
  std::byte* scratch = nullptr;  // 16 registered bytes: result of an atomic, or header of a control message
  Posting* next_free = nullptr;
  std::uint32_t covers = 0;  // requests that this completion frees
  enum class Kind : std::uint8_t {
    kTransfer,
    kSilent,
    kCredit,
    kClose,
    kProbe,
    kMarker
  } kind = Kind::kTransfer;
};

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
  void make_postings(std::uint32_t count);
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
  Posting* take_posting(Posting::Kind kind);
  void free_posting(Posting* posting);
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
  List<Transfer> queued_;
  std::unique_ptr<Posting[]> postings_;
  std::uint32_t posting_count_ = 0;
  Posting* free_postings_ = nullptr;
  Posting silent_;  // wr_id of sends without a completion
  Buffer scratch_;
  std::uint32_t send_room_ = 0;  // application requests in flight; the queue has a few more entries
  std::uint32_t in_queue_ = 0;
  std::uint32_t unsignalled_ = 0;
  std::uint32_t inline_limit_ = 0;
  std::uint32_t peer_limit_ = 0;
  Credits credits_;
  List<WindowState> windows_;  // bound through this queue pair, or about to be

  // Receiving.
  Buffer ring_;
  std::unique_ptr<ReceiveSlot[]> slots_;
  List<ReceiveSlot> inbound_;
  List<ReceiveSlot> released_;
  List<Receiving> receivers_;
  std::uint64_t next_sequence_ = 0;
  std::uint32_t posted_receives_ = 0;

  // Closing and teardown.
  List<Settling> settlers_;
  Code reason_ = Code::kClosed;
  int reason_detail_ = 0;
  Phase phase_ = Phase::kIdle;
  Closing closing_;
  bool marker_done_ = false;
  bool left_ = false;
  bool heard_ = false;  // since the last probe
  bool probing_ = false;
  Alarm probe_alarm_{this, &EndpointState::probe};
  Alarm linger_alarm_{this, &EndpointState::linger_over};
  EndpointCounters counters_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
