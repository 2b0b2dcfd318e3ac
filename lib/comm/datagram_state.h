// DatagramState: an unreliable queue pair, its receive buffers and waiters. Packets without a posted receive
// are lost.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/comm/address.h"
#include "lib/comm/pool_state.h"
#include "lib/comm/reactor.h"
#include "rrdma/comm/datagram.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

class AddressHandle final : public Counted {
 public:
  AddressHandle(Ref<Reactor> reactor, ibv_ah* handle) : reactor_(std::move(reactor)), handle_(handle) {}
  ~AddressHandle() override { ibv_destroy_ah(handle_); }
  [[nodiscard]] ibv_ah* handle() const { return handle_; }

 private:
  Ref<Reactor> reactor_;  // keeps the protection domain alive
  ibv_ah* handle_;
};

struct DatagramSlot : Completion, Link {
  DatagramState* state = nullptr;
  std::byte* data = nullptr;  // starts with the routing header
  ibv_wc wc{};
};

struct DatagramPosting : Completion {
  DatagramState* state = nullptr;
  PacketSending* waiter = nullptr;
  Buffer buffer;
  Peer peer;
  DatagramPosting* next_free = nullptr;
};

class DatagramState final : public Resident, public CmTarget, public Settler {
 public:
  DatagramState(Ref<Reactor> reactor, const DatagramProfile& profile)
      : reactor_(std::move(reactor)), profile_(profile) {}
  ~DatagramState() override;

  Result<void> open(std::string_view address);
  void stop();
  void handle_event(const rdma_cm_event& event) override;
  void settle() override;
  void shut_down() override;

  void begin(PacketSending* sending);
  void withdraw(PacketSending* sending) noexcept;
  void begin(PacketReceiving* receiving);
  void put_back(DatagramSlot* slot);
  void release(DatagramSlot* slot);
  void wait(Operation* operation) { others_.push_back(operation); }

  // Keeps a joining group until its event arrives: leaving earlier would block on that event.
  void keep(Ref<MembershipState> joining);
  void let_go(const MembershipState* joining);

  Result<Peer> peer_at(const ibv_ah_attr& attributes, std::uint32_t queue_number, std::uint32_t queue_key);
  Result<Peer> sender_of(const DatagramSlot& slot);
  [[nodiscard]] const Ref<Reactor>& reactor() const { return reactor_; }
  [[nodiscard]] rdma_cm_id* id() const { return id_; }
  [[nodiscard]] std::uint32_t message_limit() const { return reactor_->device().mtu; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  Result<void> make_queues();
  void post(PacketSending* sending);
  void fail_all(Code code);
  static void send_arrived(Completion* completion, const ibv_wc& wc);
  static void receive_arrived(Completion* completion, const ibv_wc& wc);
  void check_drained();

  Ref<Reactor> reactor_;
  DatagramProfile profile_;
  std::string address_;
  rdma_cm_id* id_ = nullptr;        // owns the queue pair; joins groups
  rdma_cm_id* listener_ = nullptr;  // answers address queries; a listening id cannot join groups
  CompletionShard* shard_ = nullptr;
  std::uint32_t shard_entries_ = 0;
  std::uint32_t queue_key_ = 0;
  Buffer ring_;
  std::unique_ptr<DatagramSlot[]> slots_;
  std::unique_ptr<DatagramPosting[]> postings_;
  DatagramPosting* free_postings_ = nullptr;
  List<PacketSending> queued_;
  List<PacketReceiving> receivers_;
  List<DatagramSlot> inbound_;
  List<DatagramSlot> released_;
  List<Operation> others_;
  std::vector<Ref<MembershipState>> joining_;
  std::uint32_t posted_receives_ = 0;
  std::uint32_t posted_sends_ = 0;
  bool stopped_ = false;
  bool left_ = false;
};

class MembershipState final : public Counted {
 public:
  MembershipState(Ref<DatagramState> state, const SocketAddress& address)
      : state_(std::move(state)), address_(address) {}
  ~MembershipState() override { leave(); }
  bool join(Joining* joining);
  void joined(const rdma_cm_event& event);
  void leave();
  void forsake() { joining_ = nullptr; }
  [[nodiscard]] const Peer& group() const { return group_; }

 private:
  Ref<DatagramState> state_;
  SocketAddress address_;
  Joining* joining_ = nullptr;
  Peer group_;
  bool joined_ = false;  // or joining
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
