// Context, and its own operations: Sleeping and Connecting.
#include "rrdma/comm/context.h"

#include <utility>

#include "lib/comm/address.h"
#include "lib/comm/endpoint_state.h"
#include "lib/comm/listener_state.h"
#include "lib/comm/reactor.h"

namespace rrdma::comm {
inline namespace v0 {

Result<Context> Context::open(const ContextOptions& options) {
  auto reactor = detail::Reactor::open(options);
  if (!reactor) return reactor.error();
  return Context(std::move(*reactor));
}

Context::Context(detail::Ref<detail::Reactor> reactor)
    : reactor_(std::move(reactor)), pool_(Pool(reactor_->pool())) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&& other) noexcept {
  if (this != &other) {
    if (reactor_) reactor_->shut_down();
    pool_ = std::move(other.pool_);
    reactor_ = std::move(other.reactor_);
  }
  return *this;
}
Context::~Context() {
  if (reactor_) reactor_->shut_down();
}

Connecting Context::connect(std::string_view address, const Profile& profile, Limit limit) {
  return Connecting(reactor(), std::string(address), profile, std::move(limit));
}

Result<Listener> Context::listen(std::string_view address, int backlog) {
  detail::Ref<detail::ListenerState> state(new detail::ListenerState(reactor()));
  if (auto listening = state->listen(address, backlog); !listening) return listening.error();
  return Listener(std::move(state));
}

bool Context::poll() { return reactor()->armed() ? reactor_->look_and_turn() : reactor_->turn(); }
bool Context::wait(Clock::time_point until) { return reactor()->wait(until); }
int Context::fd() const { return reactor()->fd(); }
bool Context::arm() { return reactor()->arm(); }
void Context::post(std::function<void()> call) { reactor()->inbox().add(std::move(call)); }
Pool& Context::pool() {
  static_cast<void>(reactor());
  return *pool_;
}
const Device& Context::device() const { return reactor()->device(); }
std::size_t Context::endpoints() const { return reactor()->residents(); }

// ---- Sleeping ----

Sleeping Context::sleep(Clock::duration duration, std::stop_token stop) {
  return {reactor(), Limit(duration, std::move(stop)), false};
}
Sleeping Context::sleep_until(Clock::time_point at, std::stop_token stop) {
  return {reactor(), Limit(at, std::move(stop)), false};
}
Sleeping Context::yield() { return {reactor(), Limit(), true}; }

Sleeping::Sleeping(detail::Ref<detail::Reactor> reactor, Limit limit, bool yield)
    : Operation(std::move(reactor), During::kSleep, std::move(limit)), yield_(yield) {}
void Sleeping::begin() {
  // Completes in the next turn, after all operations that are ready now.
  if (yield_) reactor()->complete_later(this);
}
void Sleeping::withdraw() noexcept { leave_list(); }
Result<void> Sleeping::await_resume() {
  take_once();
  if (!failed()) return {};
  Error error = take_failure();
  if (error.code() == Code::kDeadline) return {};
  return error;
}

// ---- LookingUp ----

struct LookingUp::Search final : detail::Counted {
  explicit Search(LookingUp* to) : operation(to) {}
  LookingUp* operation;  // null once it is withdrawn
};

LookingUp Context::look_up(std::string_view address, Limit limit) {
  return LookingUp(reactor(), std::string(address), std::move(limit));
}

LookingUp::LookingUp(detail::Ref<detail::Reactor> reactor, std::string address, Limit limit)
    : Operation(std::move(reactor), During::kConnect, std::move(limit)), address_(std::move(address)) {}
LookingUp::~LookingUp() { abandon(); }

void LookingUp::begin() {
  auto parsed = detail::parse_address(address_, false);
  if (!parsed) return fail(parsed.error());
  const detail::Ref<Search> search(new Search(this));
  search_ = detail::Ref<detail::Counted>(search.raw());
  reactor()->look_up_all(*parsed, [search](const Result<std::vector<detail::SocketAddress>>& all) {
    LookingUp* const operation = std::exchange(search->operation, nullptr);
    if (operation == nullptr || operation->done()) return;
    if (!all) return operation->fail(all.error());
    for (const detail::SocketAddress& one : *all) operation->found_.push_back(detail::text_of(one.generic()));
    operation->complete();
  });
}

void LookingUp::withdraw() noexcept {
  if (search_) static_cast<Search*>(search_.raw())->operation = nullptr;
}

Error LookingUp::error_for(Code code, int detail) const {
  return Error(code, During::kConnect, detail).with_peer(address_);
}

Result<std::vector<std::string>> LookingUp::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return std::move(found_);
}

// ---- Connecting ----

Connecting::Connecting(detail::Ref<detail::Reactor> reactor, std::string address, const Profile& profile,
                       Limit limit)
    : Operation(std::move(reactor), During::kConnect, std::move(limit)),
      address_(std::move(address)),
      profile_(profile),
      hello_(reinterpret_cast<const char*>(profile.hello.data()), profile.hello.size()) {
  profile_.hello = {};
}

Connecting::~Connecting() {
  abandon();
  if (endpoint_) endpoint_->handle_gone();
}

void Connecting::begin() {
  if (hello_.size() > kMaxHelloRequest)
    return fail(error_for(Code::kTooLarge, 0).with_note("hello is larger than kMaxHelloRequest"));
  endpoint_ = detail::Ref<detail::EndpointState>(new detail::EndpointState(reactor(), profile_, hello_));
  endpoint_->connect(this, address_);
}

void Connecting::opened() { complete(); }
void Connecting::not_opened(Error error) {
  endpoint_.reset();
  fail(std::move(error));
}

void Connecting::withdraw() noexcept {
  if (endpoint_) std::exchange(endpoint_, {})->forsake();
}

Error Connecting::error_for(Code code, int detail) const {
  return Error(code, During::kConnect, detail).with_peer(address_);
}

Result<Endpoint> Connecting::await_resume() {
  take_once();
  if (failed()) return take_failure();
  return Endpoint(std::move(endpoint_));
}

}  // namespace v0
}  // namespace rrdma::comm
