#include "lib/rpc/c/loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace rrdma::rpc {
inline namespace v0 {
namespace c {

// ---- Memory ----

Memory::Memory(std::shared_ptr<Loop> loop, comm::Buffer buffer)
    : Object(Kind::kBuffer),
      loop_(std::move(loop)),
      buffer_(std::move(buffer)),
      data_(buffer_.data()),
      size_(buffer_.size()) {}

Memory::Memory(std::shared_ptr<Loop> loop, const void* data, std::size_t size, std::uint64_t tag)
    : Object(Kind::kBuffer),
      loop_(std::move(loop)),
      data_(static_cast<std::byte*>(const_cast<void*>(data))),
      size_(size),
      wrapped_(true),
      tag_(tag) {}

Memory::~Memory() {
  if (buffer_) loop_->release(std::move(buffer_));
  if (!wrapped_) return;
  Event event;
  event.kind = RRDMA_RPC_EVENT_RELEASED;
  event.tag = tag_;
  loop_->push(std::move(event));
}

bool Memory::shrink(std::size_t size) {
  if (size > size_) return false;
  size_ = size;
  return true;
}

// ---- Loop ----

Loop::~Loop() {
  close();
  if (bell_ >= 0) ::close(bell_);
}

Status Loop::open_here(const comm::ContextOptions& options) {
  auto context = comm::Context::open(options);
  if (!context) return context.error();
  context_.emplace(std::move(*context));
  device_ = context_->device().name;
  for (const std::string& address : context_->device().addresses) {
    if (address_.empty() || address_.find(':') != std::string::npos) address_ = address;
  }
  scope_.emplace();
  return {};
}

Status Loop::open(const comm::ContextOptions& options) {
  if (!threaded_) {
    Status opened = open_here(options);
    closed_ = !opened.ok();
    return opened;
  }
  bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell_ < 0) {
    closed_ = true;
    return {Code::kResourceExhausted, "there is no file descriptor for an eventfd"};
  }
  std::promise<Status> started;
  std::future<Status> status = started.get_future();
  thread_ = std::thread([this, &options, &started] { run_thread(options, started); });
  Status opened = status.get();
  if (!opened.ok()) close();
  return opened;
}

void Loop::run_thread(const comm::ContextOptions& options, std::promise<Status>& started) {
  home_ = std::this_thread::get_id();
  Status opened = open_here(options);
  const bool good = opened.ok();
  started.set_value(std::move(opened));
  if (!good) return;
  while (!stopping_) context_->wait();
  end_all();
}

// Members end first, because tasks and clients may be used by them. Destroying the scope ends the tasks that
// still hold clients and servers.
void Loop::end_all() {
  const auto members = std::exchange(members_, {});
  for (const auto& member : members) member->end();
  scope_.reset();
  std::optional<comm::Context> last;
  {
    const std::lock_guard hold(mutex_);
    last.emplace(std::move(*context_));
    context_.reset();
  }
}

void Loop::close() {
  {
    const std::lock_guard hold(mutex_);
    if (closed_.exchange(true)) {
      if (!thread_.joinable()) return;
    } else if (threaded_ && context_) {
      context_->post([this] { stopping_ = true; });
    }
  }
  if (thread_.joinable()) {
    thread_.join();
  } else if (context_) {
    end_all();
  }
  std::vector<comm::Buffer> late;
  std::deque<Event> events;
  {
    const std::lock_guard hold(mutex_);
    ended_ = true;
    late.swap(late_);
    events.swap(events_);
    late.clear();
  }
  changed_.notify_all();
}

void Loop::run(std::function<void()> work) {
  if (at_home()) {
    if (!closed_) work();
    return;
  }
  const std::lock_guard hold(mutex_);
  if (!closed_) context_->post(std::move(work));
}

void Loop::release(comm::Buffer buffer) {
  if (at_home() && !ended_) return;  // destroys it
  const std::lock_guard hold(mutex_);
  if (ended_) {
    const comm::Buffer now = std::move(buffer);
  } else if (closed_) {
    late_.push_back(std::move(buffer));
  } else {
    context_->post(
        [shared = std::make_shared<comm::Buffer>(std::move(buffer))] { *shared = comm::Buffer(); });
  }
}

void Loop::push(Event event) {
  const std::lock_guard hold(mutex_);
  if (closed_) return;
  events_.push_back(std::move(event));
  ring();
}

void Loop::ring() {
  if (!threaded_) return;
  const std::uint64_t one = 1;
  (void)!::write(bell_, &one, sizeof(one));
  changed_.notify_one();
}

Status Loop::wait(comm::Clock::time_point until) {
  const Status over(Code::kFailedPrecondition, "the context is closed");
  if (threaded_) {
    std::unique_lock hold(mutex_);
    const auto ready = [this] { return !events_.empty() || woken_ || closed_; };
    if (until == comm::Clock::time_point::max()) {
      changed_.wait(hold, ready);
    } else {
      changed_.wait_until(hold, until, ready);
    }
    woken_ = false;
    return closed_ ? over : Status();
  }
  if (closed_) return over;
  context_->poll();
  while (events_.empty() && !woken_ && comm::Clock::now() < until) context_->wait(until);
  woken_ = false;
  return {};
}

bool Loop::take(Event& event) {
  const std::lock_guard hold(mutex_);
  if (events_.empty()) return false;
  event = std::move(events_.front());
  events_.pop_front();
  if (events_.empty() && threaded_) {
    std::uint64_t rings = 0;
    (void)!::read(bell_, &rings, sizeof(rings));
  }
  return true;
}

void Loop::wake() {
  const std::lock_guard hold(mutex_);
  if (closed_) return;
  if (!threaded_) {
    context_->post([this] { woken_ = true; });
    return;
  }
  woken_ = true;
  changed_.notify_all();
}

int Loop::fd() const { return threaded_ ? bell_ : context_->fd(); }

bool Loop::arm() {
  {
    const std::lock_guard hold(mutex_);
    if (!events_.empty() || closed_) return false;
    if (threaded_) return true;
  }
  return context_->arm();
}

}  // namespace c
}  // namespace v0
}  // namespace rrdma::rpc
