// Server: its methods, port and shutdown.
#include "rrdma/rpc/server.h"

#include <algorithm>
#include <map>

#include "lib/rpc/method_names.h"
#include "lib/rpc/patience.h"
#include "lib/rpc/proof.h"
#include "lib/rpc/server_connection.h"
#include "lib/rpc/this_host.h"
#include "lib/rpc/worker.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {
// The interval between attempts to listen while another server does.
constexpr std::chrono::milliseconds kTakeOverInterval{2};
}  // namespace

ServerState::ServerState(comm::Context& context, const ServerOptions& options)
    : ServerState(context, options, *this) {}

ServerState::ServerState(comm::Context& context, const ServerOptions& options, ServerState& whole)
    : context_(&context),
      options_(options),
      whole_(&whole),
      directory_(&whole == this ? std::make_shared<Directory>() : whole.directory_),
      versions_(*this),
      health_(*directory_),
      reflection_(*directory_),
      metrics_(*this) {
  options_.window = std::max(options_.window, kLeastWindow);
  keep(handler_of<&Versions::check>(versions_), true);
  if (!options_.reflection) return;
  keep(handler_of<&Health::check>(health_), true);
  keep(handler_of<&Reflection::list>(reflection_), true);
  keep(handler_of<&Reflection::describe>(reflection_), true);
  keep(handler_of<&Metrics::text>(metrics_), true);
}
ServerState::~ServerState() {
  // Stop all workers at once, because each may linger for a while.
  for (const auto& worker : workers_) worker->stop();
}

void ServerState::add(Handler handler) {
  if (whole_ == this) directory_->add(handler.method);
  for (const auto& worker : workers_) worker->add(handler);
  keep(std::move(handler), false);
}

void ServerState::keep(Handler handler, bool built_in) {
  auto served = std::make_unique<Served>();
  served->built_in = built_in;
  served->handler = std::move(handler);
  // Copy the names: the views may refer to temporaries.
  Handler& kept = served->handler;
  kept.service = kept.method.service;
  kept.name = kept.method.name;
  kept.method.service = kept.service;
  kept.method.name = kept.name;
  name_for_captures(kept.method);
  std::unique_ptr<Served>& place = methods_[kept.method.id];
  last_found_ = nullptr;
  // Calls of the replaced method may still run.
  if (place) replaced_.push_back(std::move(place));
  place = std::move(served);
}

Served* ServerState::find(std::uint64_t method) const {
  // Often the same method is called again.
  if (last_found_ != nullptr && last_found_->handler.method.id == method) return last_found_;
  const auto found = methods_.find(method);
  if (found == methods_.end()) return nullptr;
  return last_found_ = found->second.get();
}

Status ServerState::listen(std::string_view address) {
  if (options_.encryption == Encryption::kAlways && options_.secret.empty())
    return {Code::kFailedPrecondition, kNoSecret};
  auto listener = context_->listen(address);
  if (!listener) return listener.error();
  return serve_at(std::move(*listener));
}

Status ServerState::serve_at(comm::Listener listener) {
  const Status started = start_workers();
  if (!started.ok()) return started;
  listener_ = std::move(listener);
  scope_.spawn(accept_all());
  return {};
}

// Threads are started before, so that clients do not wait for them.
comm::Task<Status> ServerState::take_over(std::string address, comm::Limit limit) {
  if (options_.encryption == Encryption::kAlways && options_.secret.empty())
    co_return Status(Code::kFailedPrecondition, kNoSecret);
  Status started = start_workers();
  if (!started.ok()) co_return started;
  for (;;) {
    auto listener = context_->listen(address);
    if (listener) co_return serve_at(std::move(*listener));
    if (listener.error().code() != comm::Code::kInUse) co_return listener.error();
    const comm::Clock::time_point next = comm::Clock::now() + kTakeOverInterval;
    if (next >= limit.at()) co_return listener.error();
    auto slept = co_await context_->sleep_until(next, limit.stop());
    if (!slept) co_return slept.error();
  }
}

Status ServerState::start_workers() {
  comm::ContextOptions context = options_.thread_context;
  if (context.device.empty()) context.device = context_->device().name;
  ServerOptions own = options_;
  own.threads = 0;
  while (workers_.size() < options_.threads) {
    auto worker = std::make_unique<Worker>();
    Status started = worker->start(context, own, *this);
    if (!started.ok()) {
      workers_.clear();
      return started;
    }
    for (const auto& [number, served] : methods_) {
      if (!served->built_in) worker->add(served->handler);
    }
    workers_.push_back(std::move(worker));
  }
  return {};
}

comm::Task<void> ServerState::accept_all() {
  for (;;) {
    auto incoming = co_await listener_.next();
    if (!incoming) co_return;
    if (workers_.empty()) {
      scope_.spawn(serve(std::move(*incoming)));
      continue;
    }
    const auto idlest = std::min_element(workers_.begin(), workers_.end(),
                                         [](const auto& a, const auto& b) { return a->load() < b->load(); });
    (*idlest)->take(std::move(*incoming));
  }
}

// An address with many of them is unlikely to prove the secret. Connections that are being accepted cannot be
// ended.
bool ServerState::make_room_for_unproven() {
  if (unproven_ < options_.max_unproven) return true;
  struct Waiting {
    std::size_t count = 0;
    ServerConnection* oldest = nullptr;
  };
  std::map<std::string, Waiting, std::less<>> by_address;
  for (auto* at = connections_.front(); at != nullptr; at = connections_.after(at)) {
    if (!at->unproven()) continue;
    const std::string_view peer = at->line().endpoint().peer();
    Waiting& waiting = by_address[std::string(peer.substr(0, peer.rfind(':')))];
    ++waiting.count;
    if (waiting.oldest == nullptr) waiting.oldest = at;
  }
  const auto most = std::max_element(by_address.begin(), by_address.end(), [](const auto& a, const auto& b) {
    return a.second.count < b.second.count;
  });
  if (most == by_address.end()) return false;
  most->second.oldest->abort();
  return true;
}

bool ServerState::agrees(comm::Incoming& incoming, const std::optional<ClientHello>& hello, bool& encrypt) {
  const auto refuse = [&](std::uint8_t reason, const std::string& why) {
    ++counts_.refused;
    log(LogLevel::kWarning, "refused", incoming.peer(), why);
    incoming.refuse(reason, why);
    return false;
  };
  if (!hello) return refuse(kRefusedForeign, "this server speaks rrdma::rpc only");
  if (hello->lowest > kProtocolVersion || hello->highest < std::max(hello->lowest, kLowestVersion) ||
      incoming.message_limit() < kFrameLimit) {
    return refuse(kRefusedVersion, "this server speaks versions " + std::to_string(kLowestVersion) + " to " +
                                       std::to_string(kProtocolVersion) + " of rrdma::rpc");
  }
  if (options_.secret.empty()) return true;
  if (!hello->secret) return refuse(kRefusedSecret, "this server asks for a shared secret");
  const bool able = hello->encryption != kCannotEncrypt && hello->highest >= kSealingVersion &&
                    incoming.message_limit() >= kFrameLimit + kSealing;
  const bool never = options_.encryption == Encryption::kNever;
  const bool demanded =
      !never && (options_.encryption == Encryption::kAlways || !on_this_host(incoming.peer()));
  const bool asked = able && hello->encryption == kMustEncrypt;
  if (demanded && !able) return refuse(kRefusedPlain, "this server encrypts, and the client does not");
  if (asked && never)
    return refuse(kRefusedSealed, "this server does not encrypt, and the client demands it");
  encrypt = demanded || asked;
  if (!make_room_for_unproven())
    return refuse(kRefusedBusy, "too many clients are about to show the secret: try again");
  return true;
}

ServerHello ServerState::answer_to(const comm::Incoming& incoming, const ClientHello& hello, bool encrypt,
                                   ServerConnection::Expected& expected) const {
  ServerHello answer;
  answer.version = std::min(hello.highest, kProtocolVersion);
  answer.max_calls = options_.max_calls;
  answer.max_argument =
      static_cast<std::uint32_t>(std::min<std::size_t>(options_.max_argument, ~std::uint32_t{0}));
  answer.window = options_.window;
  if (options_.secret.empty()) return answer;
  answer.secret = true;
  answer.nonce = fresh_nonce();
  if (encrypt) {
    expected.handshake.emplace(Role::kServer, options_.secret);
    answer.key = expected.handshake->key();
    answer.proof = expected.handshake->prove_server(incoming.hello(), emit(answer));
  } else {
    answer.proof = proof_of(options_.secret, Role::kServer, hello.nonce, answer.nonce);
    expected.proof = proof_of(options_.secret, Role::kClient, hello.nonce, answer.nonce);
  }
  return answer;
}

comm::Task<void> ServerState::serve(comm::Incoming incoming) {
  const unsigned aborts = aborts_;
  const auto hello = parse_client_hello(incoming.hello());
  bool encrypt = false;
  if (!agrees(incoming, hello, encrypt)) co_return;
  Unproven unproven(options_.secret.empty() ? nullptr : &unproven_);
  ServerConnection::Expected expected;
  const ServerHello answer = answer_to(incoming, *hello, encrypt, expected);
  const auto octets = emit(answer);
  comm::Profile profile;
  profile.message_limit = kLargeFrameLimit + (encrypt ? kSealing : 0);
  profile.receive_depth = options_.depth;
  profile.send_depth = options_.depth;
  profile.keep_alive = options_.keep_alive;
  profile.hello = std::span(octets).first(encrypt ? kEncryptedHelloSize : kServerHelloSize);
  auto accepted = co_await comm::when_any(incoming.accept(*context_, profile), patience(*context_));
  if (accepted.index() == 1 || aborts_ != aborts) co_return;
  auto& endpoint = std::get<0>(accepted);
  if (!endpoint) co_return;
  ++counts_.connections;
  log(LogLevel::kInfo, "connected", endpoint->peer(), encrypt ? "encrypted" : "");
  ServerConnection connection(*this, std::move(*endpoint), *hello, answer.version, std::move(expected),
                              unproven);
  if (draining_) {
    // The client connected too late and may already have sent calls. go_away() tells it that none has
    // started.
    connection.go_away();
    connection.leave();
  }
  co_await connection.run();
}

comm::Task<Status> ServerState::until_none(const Count& count, comm::Limit limit) {
  while (count.value() != 0) {
    comm::Signal signal(*context_, limit);
    const WaitPlace::Stay stay(idle_, signal);
    auto waited = co_await signal;
    if (!waited) co_return waited.error();
  }
  co_return Status();
}

comm::Task<Status> ServerState::drain_own(comm::Limit limit) {
  draining_ = true;
  for (auto* at = connections_.front(); at != nullptr; at = connections_.after(at)) at->go_away();
  Status ended = co_await until_none(running_, limit);
  if (ended.ok()) {
    for (auto* at = connections_.front(); at != nullptr; at = connections_.after(at)) at->leave();
    ended = co_await until_none(connected_, limit);
  }
  if (!ended.ok()) abort();
  co_return ended;
}

comm::Task<Status> ServerState::drain(comm::Limit limit) {
  directory_->close();
  listener_ = comm::Listener();
  std::vector<comm::Task<Status>> parts;
  parts.push_back(drain_own(limit));
  for (const auto& worker : workers_) {
    parts.push_back(
        worker->ask<Status>(*context_, [limit](ServerState& part) { return part.drain_own(limit); }));
  }
  auto ended = co_await comm::when_all(std::move(parts));
  for (Status& one : ended) {
    if (!one.ok()) co_return std::move(one);
  }
  co_return Status();
}

void ServerState::abort() {
  ++aborts_;
  listener_ = comm::Listener();
  for (auto* at = connections_.front(); at != nullptr; at = connections_.after(at)) at->abort();
  for (const auto& worker : workers_) worker->abort();
}

std::size_t ServerState::connections() const {
  std::size_t all = connected_.value();
  for (const auto& worker : workers_) all += worker->state().connections();
  return all;
}

std::size_t ServerState::calls() const {
  std::size_t all = running_.value();
  for (const auto& worker : workers_) all += worker->state().calls();
  return all;
}

ServerCounters ServerState::counters() const {
  ServerCounters all{counts_.connections.value(), counts_.refused.value(), counts_.broken.value(),
                     counts_.calls.value(), counts_.good.value()};
  for (const auto& worker : workers_) {
    const ServerCounters part = worker->state().counters();
    all.connections += part.connections;
    all.refused += part.refused;
    all.broken += part.broken;
    all.calls += part.calls;
    all.good += part.good;
  }
  return all;
}

comm::Task<ServerStatistics> ServerState::own_statistics() {
  ServerStatistics own;
  own.counters = counters();
  own.connections = connections();
  for (const auto& [number, served] : methods_) {
    own.methods.push_back(
        {served->handler.service, served->handler.name, served->running, served->ended, served->latencies});
  }
  co_return own;
}

comm::Task<ServerStatistics> ServerState::statistics_of_all() {
  // The counters already cover all threads; the methods cover only this one.
  ServerStatistics all = co_await own_statistics();
  std::map<std::pair<std::string, std::string>, MethodStatistics> methods;
  for (MethodStatistics& method : all.methods)
    methods.emplace(std::pair(method.service, method.method), std::move(method));
  for (const auto& worker : workers_) {
    ServerStatistics part = co_await worker->ask<ServerStatistics>(*context_, &ServerState::own_statistics);
    for (const MethodStatistics& method : part.methods) {
      MethodStatistics& into = methods[std::pair(method.service, method.method)];
      into.service = method.service;
      into.method = method.method;
      into.running += method.running;
      for (std::size_t code = 0; code < method.ended.size(); ++code) into.ended[code] += method.ended[code];
      into.latencies.merge(method.latencies);
    }
  }
  all.methods.clear();
  for (auto& [name, method] : methods) all.methods.push_back(std::move(method));
  co_return all;
}

comm::Task<ServerStatistics> ServerState::statistics() {
  if (whole_ == this) return statistics_of_all();
  return ask_there<ServerStatistics>(whole_->context(), whole_->scope_, *context_,
                                     [all = whole_] { return all->statistics_of_all(); });
}

}  // namespace detail

Server::Server(comm::Context& context, const ServerOptions& options)
    : state_(std::make_unique<detail::ServerState>(context, options)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

void Server::add(detail::Handler handler) { state_->add(std::move(handler)); }
void Server::describe(std::string_view service, std::string_view descriptors) {
  state_->describe(service, descriptors);
}
void Server::set_serving(std::string_view service, bool serving) { state_->set_serving(service, serving); }
comm::Task<ServerStatistics> Server::statistics() { return state_->statistics(); }
comm::Task<Status> Server::take_over(std::string address, comm::Limit limit) {
  return state_->take_over(std::move(address), std::move(limit));
}
Status Server::listen(std::string_view address) { return state_->listen(address); }
std::uint16_t Server::port() const { return state_->listener().port(); }
std::string_view Server::address() const { return state_->listener().address(); }
comm::Task<Status> Server::drain(comm::Limit limit) { return state_->drain(std::move(limit)); }
void Server::abort() { state_->abort(); }
std::size_t Server::connections() const { return state_->connections(); }
std::size_t Server::calls() const { return state_->calls(); }
ServerCounters Server::counters() const { return state_->counters(); }

}  // namespace v0
}  // namespace rrdma::rpc
