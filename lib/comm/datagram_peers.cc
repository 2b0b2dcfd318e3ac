// The destinations of a Datagram: resolved peers and joined multicast groups.
#include <cerrno>
#include <utility>

#include "lib/comm/datagram_state.h"
#include "rrdma/comm/datagram.h"

namespace rrdma::comm {
inline namespace v0 {
namespace {
constexpr int kResolveMs = 2000;
}

// ---- resolving a peer: a separate id asks for the number of the peer's queue pair ----

struct Resolving::Search final : detail::Counted, detail::CmTarget {
  explicit Search(Resolving* who) : resolving(who) {}
  ~Search() override {
    if (id != nullptr) rdma_destroy_id(id);
  }

  void start(const detail::SocketAddress& target) {
    detail::SocketAddress copy = target;
    if (rdma_create_id(resolving->reactor()->cm_channel(), &id, static_cast<detail::CmTarget*>(this),
                       RDMA_PS_UDP) != 0) {
      id = nullptr;
      return resolving->fail(Code::kSystem, errno);
    }
    if (rdma_resolve_addr(id, nullptr, copy.generic(), kResolveMs) != 0)
      resolving->fail(Code::kUnreachable, errno);
  }

  void handle_event(const rdma_cm_event& event) override {
    if (resolving == nullptr || resolving->done()) return;
    const detail::Ref<Search> self(this);
    switch (event.event) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(id, kResolveMs) != 0) resolving->fail(Code::kUnreachable, errno);
        return;
      case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        rdma_conn_param parameters{};
        if (rdma_connect(id, &parameters) != 0) resolving->fail(Code::kSystem, errno);
        return;
      }
      case RDMA_CM_EVENT_ESTABLISHED: {
        auto found =
            resolving->state_->peer_at(event.param.ud.ah_attr, event.param.ud.qp_num, event.param.ud.qkey);
        if (!found) return resolving->fail(found.error());
        resolving->peer_ = std::move(*found);
        return resolving->complete();
      }
      case RDMA_CM_EVENT_REJECTED: return resolving->fail(Code::kRefused);
      default: return resolving->fail(Code::kUnreachable, -event.status);
    }
  }

  Resolving* resolving;
  rdma_cm_id* id = nullptr;
};

Resolving::Resolving(const detail::Ref<detail::DatagramState>& state, std::string address, Limit limit)
    : Operation(state->reactor(), During::kConnect, std::move(limit)),
      state_(state),
      address_(std::move(address)) {}
Resolving::~Resolving() {
  abandon();
  if (search_) static_cast<Search*>(search_.raw())->resolving = nullptr;
}

void Resolving::begin() {
  if (state_->stopped()) return fail(Code::kClosed);
  auto parsed = detail::parse_address(address_, false);
  if (!parsed) return fail(parsed.error());
  state_->wait(this);
  auto* search = new Search(this);
  search_ = detail::Ref<detail::Counted>(search);
  if (auto numeric = detail::numeric_address(*parsed); numeric) return search->start(*numeric);
  reactor()->look_up(*parsed, [kept = detail::Ref<Search>(search)](Result<detail::SocketAddress> found) {
    if (kept->resolving == nullptr || kept->resolving->done()) return;
    if (!found) return kept->resolving->fail(found.error());
    kept->start(*found);
  });
}

void Resolving::withdraw() noexcept {
  leave_list();
  if (search_) static_cast<Search*>(search_.raw())->resolving = nullptr;
  search_.reset();
}

Error Resolving::error_for(Code code, int detail) const {
  return Error(code, During::kConnect, detail).with_peer(address_);
}

Result<Peer> Resolving::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return std::move(peer_);
}

// ---- multicast ----

namespace detail {

void DatagramState::keep(Ref<MembershipState> joining) { joining_.push_back(std::move(joining)); }
void DatagramState::let_go(const MembershipState* joining) {
  std::erase_if(joining_, [joining](const Ref<MembershipState>& one) { return one.raw() == joining; });
}

bool MembershipState::join(Joining* joining) {
  joining_ = joining;
  if (rdma_join_multicast(state_->id(), address_.generic(), this) != 0) return false;
  joined_ = true;
  state_->keep(Ref<MembershipState>(this));
  return true;
}

void MembershipState::joined(const rdma_cm_event& event) {
  const Ref<MembershipState> self(this);
  state_->let_go(this);
  Joining* joining = std::exchange(joining_, nullptr);
  if (event.event == RDMA_CM_EVENT_MULTICAST_ERROR) {
    if (joining != nullptr) joining->fail(Code::kSystem, event.status < 0 ? -event.status : event.status);
    return;
  }
  auto group = state_->peer_at(event.param.ud.ah_attr, event.param.ud.qp_num, event.param.ud.qkey);
  if (joining == nullptr) return;
  if (!group) return joining->fail(group.error());
  group_ = std::move(*group);
  joining->complete();
}

void MembershipState::leave() {
  // Leave even after the Datagram has ended, because a queue pair in a group cannot be destroyed. Leave also
  // if the join was refused or is still pending: librdmacm keeps its record until then.
  if (std::exchange(joined_, false)) rdma_leave_multicast(state_->id(), address_.generic());
}

}  // namespace detail

Joining::Joining(const detail::Ref<detail::DatagramState>& state, std::string address, Limit limit)
    : Operation(state->reactor(), During::kJoin, std::move(limit)),
      state_(state),
      address_(std::move(address)) {}
Joining::~Joining() {
  abandon();
  if (membership_) membership_->forsake();
}

void Joining::begin() {
  if (state_->stopped()) return fail(Code::kClosed);
  auto group = detail::numeric_address({address_, "0"});
  if (!group) return fail(group.error());
  membership_ = detail::Ref<detail::MembershipState>(new detail::MembershipState(state_, *group));
  state_->wait(this);
  if (!membership_->join(this)) fail(Code::kSystem, errno);
}

void Joining::withdraw() noexcept {
  leave_list();
  if (membership_) membership_->forsake();
  membership_.reset();
}

Error Joining::error_for(Code code, int detail) const {
  return Error(code, During::kJoin, detail).with_peer(address_);
}

Result<Membership> Joining::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return Membership(std::move(membership_));
}

Membership::Membership() = default;
Membership::Membership(detail::Ref<detail::MembershipState> state) : state_(std::move(state)) {}
Membership::Membership(Membership&&) noexcept = default;
Membership& Membership::operator=(Membership&&) noexcept = default;
Membership::~Membership() = default;
Peer Membership::group() const {
  if (!state_) detail::broken_contract("an operation on an empty Membership");
  return state_->group();
}

}  // namespace v0
}  // namespace rrdma::comm
