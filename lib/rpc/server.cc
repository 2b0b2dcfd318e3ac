// Server: its methods, its port, and how it ends.
#include "rrdma/rpc/server.h"

#include <algorithm>

#include "lib/rpc/proof.h"
#include "lib/rpc/server_connection.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
ServerState::ServerState(comm::Context& context, const ServerOptions& options)
    : context_(&context), options_(options), versions_(*this) {
  options_.window = std::max(options_.window, kLeastWindow);
  add(handler_of<&Versions::check>(versions_));
}
ServerState::~ServerState() = default;

void ServerState::add(Handler handler) {
  auto kept = std::make_unique<Handler>(std::move(handler));
  // The names may have been somebody's temporary.
  kept->service = kept->method.service;
  kept->name = kept->method.name;
  kept->method.service = kept->service;
  kept->method.name = kept->name;
  handlers_[kept->method.id] = std::move(kept);
}

const Handler* ServerState::find(std::uint64_t method) const {
  const auto found = handlers_.find(method);
  return found == handlers_.end() ? nullptr : found->second.get();
}

Status ServerState::listen(std::string_view address) {
  auto listener = context_->listen(address);
  if (!listener) return status_of(listener.error());
  listener_ = std::move(*listener);
  scope_.spawn(accept_all());
  return {};
}

comm::Task<void> ServerState::accept_all() {
  for (;;) {
    auto incoming = co_await listener_.next();
    if (!incoming) co_return;
    scope_.spawn(serve(std::move(*incoming)));
  }
}

comm::Task<void> ServerState::serve(comm::Incoming incoming) {
  const auto hello = parse_client_hello(incoming.hello());
  if (!hello) {
    ++counters_.refused;
    incoming.refuse(kRefusedForeign, "this server speaks rrdma::rpc only");
    co_return;
  }
  if (hello->lowest > kProtocolVersion || hello->highest < kProtocolVersion ||
      incoming.message_limit() < kFrameLimit) {
    ++counters_.refused;
    incoming.refuse(kRefusedVersion,
                    "this server speaks version " + std::to_string(kProtocolVersion) + " of rrdma::rpc");
    co_return;
  }
  const bool guarded = !options_.secret.empty();
  if (guarded && !hello->secret) {
    ++counters_.refused;
    incoming.refuse(kRefusedSecret, "this server asks for a shared secret");
    co_return;
  }
  ServerHello answer;
  answer.max_calls = options_.max_calls;
  answer.max_argument =
      static_cast<std::uint32_t>(std::min<std::size_t>(options_.max_argument, ~std::uint32_t{0}));
  answer.window = options_.window;
  std::optional<Proof> expected;
  if (guarded) {
    answer.secret = true;
    answer.nonce = fresh_nonce();
    answer.proof = proof_of(options_.secret, Role::kServer, hello->nonce, answer.nonce);
    expected = proof_of(options_.secret, Role::kClient, hello->nonce, answer.nonce);
  }
  const auto octets = emit(answer);
  comm::Profile profile;
  profile.message_limit = kFrameLimit;
  profile.receive_depth = options_.depth;
  profile.send_depth = options_.depth;
  profile.keep_alive = options_.keep_alive;
  profile.hello = octets;
  auto endpoint = co_await incoming.accept(*context_, profile, comm::Limit(std::chrono::seconds(10)));
  if (!endpoint || draining_) co_return;
  ++counters_.connections;
  ServerConnection connection(*this, std::move(*endpoint), *hello, expected);
  co_await connection.run();
}

comm::Task<Status> ServerState::until_none(const std::size_t& count, comm::Limit limit) {
  while (count != 0) {
    comm::Signal signal(*context_, limit);
    const WaitPlace::Stay stay(idle_, signal);
    auto waited = co_await signal;
    if (!waited) co_return status_of(waited.error());
  }
  co_return Status();
}

comm::Task<Status> ServerState::drain(comm::Limit limit) {
  draining_ = true;
  listener_ = comm::Listener();
  for (auto* at = connections_.front(); at != nullptr; at = connections_.after(at)) at->go_away();
  Status ended = co_await until_none(running_, limit);
  if (ended.ok()) {
    for (auto* at = connections_.front(); at != nullptr; at = connections_.after(at)) at->leave();
    ended = co_await until_none(connection_count_, limit);
  }
  if (!ended.ok()) abort();
  co_return ended;
}

void ServerState::abort() {
  listener_ = comm::Listener();
  for (auto* at = connections_.front(); at != nullptr; at = connections_.after(at)) at->abort();
}

}  // namespace detail

Server::Server(comm::Context& context, const ServerOptions& options)
    : state_(std::make_unique<detail::ServerState>(context, options)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

void Server::add(detail::Handler handler) { state_->add(std::move(handler)); }
Status Server::listen(std::string_view address) { return state_->listen(address); }
std::uint16_t Server::port() const { return state_->listener().port(); }
std::string_view Server::address() const { return state_->listener().address(); }
comm::Task<Status> Server::drain(comm::Limit limit) { return state_->drain(std::move(limit)); }
void Server::abort() { state_->abort(); }
std::size_t Server::connections() const { return state_->connections(); }
std::size_t Server::calls() const { return state_->calls(); }
const ServerCounters& Server::counters() const { return state_->counters(); }

}  // namespace v0
}  // namespace rrdma::rpc
