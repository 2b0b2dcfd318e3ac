#include "lib/rpc/worker.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

Worker::~Worker() {
  if (!thread_.joinable()) return;
  stop();
  thread_.join();
}

void Worker::stop() {
  // The thread may end right after this call.
  if (comm::Context* context = std::exchange(context_, nullptr)) context->post([this] { stopping_ = true; });
}

Status Worker::start(const comm::ContextOptions& context, const ServerOptions& options, ServerState& whole) {
  std::promise<Status> started;
  thread_ = std::thread([&] { run(context, options, whole, started); });
  return started.get_future().get();
}

void Worker::run(const comm::ContextOptions& options, const ServerOptions& server_options, ServerState& whole,
                 std::promise<Status>& started) {
  auto opened = comm::Context::open(options);
  if (!opened) return started.set_value(Status(opened.error()));
  comm::Context context = std::move(*opened);
  ServerState state(context, server_options, whole);
  comm::Scope scope;
  context_ = &context;
  state_ = &state;
  scope_ = &scope;
  // From here on, `start` may return and its arguments may be destroyed.
  started.set_value(Status());
  while (!stopping_) context.wait();
}

void Worker::add(Handler handler) {
  context_->post([this, handler = std::move(handler)] { state_->add(handler); });
}

void Worker::take(comm::Incoming incoming) {
  load_.fetch_add(1, std::memory_order_relaxed);
  // std::function requires a copyable callable; Incoming is move-only.
  context_->post([this, shared = std::make_shared<comm::Incoming>(std::move(incoming))] {
    scope_->spawn(serve(std::move(*shared)));
  });
}

comm::Task<void> Worker::serve(comm::Incoming incoming) {
  co_await state_->serve(std::move(incoming));
  load_.fetch_sub(1, std::memory_order_relaxed);
}

void Worker::abort() {
  context_->post([this] { state_->abort(); });
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
