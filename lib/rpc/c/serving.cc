// Servers of the C interface and the calls that arrive at them.
#include <cstring>
#include <utility>

#include "lib/rpc/c/calls.h"
#include "rrdma/rpc/handler.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace c {

// ---- Serving ----

class Serving::Presence {
 public:
  Presence(std::shared_ptr<Serving> serving, std::uint64_t tag, detail::ServerCall& call)
      : serving_(std::move(serving)) {
    serving_->arrive(tag, call);
  }
  Presence(const Presence&) = delete;
  // The handler ends, or is destroyed with its connection.
  ~Presence() {
    serving_->inbound_.reset();
    serving_->outbound_.reset();
    if (!serving_->answer_) serving_->tell_cancelled();
    serving_->loop().leave(serving_);
  }

 private:
  std::shared_ptr<Serving> serving_;
};

comm::Task<void> Serving::serve(void* object, detail::ServerCall& call) {
  auto* method = static_cast<ServedMethod*>(object);
  auto self = std::make_shared<Serving>(method->loop);
  const Presence presence(self, method->tag, call);
  const std::stop_callback cancelled(call.stop(), [&self] { self->tell_cancelled(); });
  while (!self->answer_) {
    comm::Signal signal(call.context());
    const detail::WaitPlace::Stay stay(self->place_, signal);
    auto waited = co_await signal;
    if (!waited) self->answer_.emplace(Answer{Status(waited.error()), nullptr, {}});
  }
  self->conclude(call);
}

void Serving::arrive(std::uint64_t tag, detail::ServerCall& call) {
  tag_ = tag;
  inbound_ = call.inbound();
  outbound_ = call.outbound();
  Handles::all().add(shared_from_this());
  loop().join(shared_from_this());
  Event arrived = event(RRDMA_RPC_EVENT_CALL, tag);
  Status status;
  arrived.payload = memory_of(call.argument(), status);
  call.argument().release();
  arrived.metadata = call.metadata();
  arrived.peer = call.peer();
  if (call.deadline() != comm::Clock::time_point::max()) {
    const std::chrono::nanoseconds left = call.deadline() - comm::Clock::now();
    arrived.timeout_ns = std::max<std::int64_t>(left.count(), 0);
  }
  if (status.ok()) return loop().push(std::move(arrived));
  told_ = true;
  answer_.emplace(Answer{std::move(status), nullptr, {}});
  static_cast<void>(Handles::all().take<CallObject>(handle()));
}

void Serving::tell_cancelled() {
  if (std::exchange(told_, true) || answer_) return;
  loop().push(event(RRDMA_RPC_EVENT_CANCELLED, tag_, Status(Code::kCancelled, "the call is not wanted")));
}

void Serving::answer(Answer answer) {
  if (answer_) return;
  answer_.emplace(std::move(answer));
  place_.give();
}

void Serving::finish(std::uint64_t tag) {
  loop().push(event(RRDMA_RPC_EVENT_DONE, tag,
                    Status(Code::kFailedPrecondition, "a call that arrived ends with rrdma_rpc_reply")));
}

void Serving::end() {
  static_cast<void>(Handles::all().take<CallObject>(handle()));
  answer(Answer{Status(Code::kInternal, "the server gave no answer"), nullptr, {}});
}

void Serving::conclude(detail::ServerCall& call) {
  for (const auto& [name, value] : answer_->trailers) call.trailers().add(name, value);
  if (!answer_->status.ok()) return call.fail(answer_->status);
  const std::shared_ptr<Outgoing> result = std::move(answer_->result);
  const std::span<const std::byte> bytes = result ? result->bytes() : std::span<const std::byte>();
  auto& pool = call.context().pool();
  auto memory = goes_wrapped(bytes.size()) ? pool.wrap(bytes, result) : pool.take(bytes.size());
  if (!memory) return call.fail(memory.error());
  if (!goes_wrapped(bytes.size()) && !bytes.empty()) std::memcpy(memory->data(), bytes.data(), bytes.size());
  Bulk<std::byte> bulk(std::move(*memory));
  call.reply(bulk);
}

// ---- ServerObject ----

void ServerObject::open(const ServerOptions& options) {
  server_ = std::make_shared<Server>(loop().context(), options);
  loop().join(shared_from_this());
}

void ServerObject::add(std::unique_ptr<OwnMethod> method, std::uint64_t tag) {
  if (!server_) return;
  auto served = std::make_unique<ServedMethod>();
  served->loop = shared_loop();
  served->method = std::move(method);
  served->tag = tag;
  detail::Handler handler;
  handler.method = served->method->method;
  handler.object = served.get();
  handler.run = &Serving::serve;
  methods_.push_back(std::move(served));
  server_->add(std::move(handler));
}

void ServerObject::drain(comm::Limit limit, std::uint64_t tag) {
  if (!server_) return;
  loop().spawn(
      drain_all(std::static_pointer_cast<ServerObject>(shared_from_this()), server_, std::move(limit), tag));
}

comm::Task<void> ServerObject::drain_all(std::shared_ptr<ServerObject> self, std::shared_ptr<Server> server,
                                         comm::Limit limit, std::uint64_t tag) {
  Status status = co_await server->drain(std::move(limit));
  Event done;
  done.kind = RRDMA_RPC_EVENT_DONE;
  done.tag = tag;
  done.handle = self->handle();
  done.status = std::move(status);
  self->loop().push(std::move(done));
}

void ServerObject::end() {
  if (server_) server_->abort();
  server_.reset();
  loop().leave(shared_from_this());
  static_cast<void>(Handles::all().take<ServerObject>(handle()));
}

}  // namespace c
}  // namespace v0
}  // namespace rrdma::rpc
