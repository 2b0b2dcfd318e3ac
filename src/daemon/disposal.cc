#include "daemon/disposal.h"

#include <signal.h>
#include <sys/socket.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

namespace rrdma::daemon {
namespace {

constexpr std::size_t kThreadsMax = 16;

}  // namespace

struct Disposal::State {
  struct Queue {
    std::deque<Item> items;
    std::size_t descriptors = 0;
    bool busy = false;  // a thread closes one of them
  };
  std::mutex mutex;
  std::condition_variable wake;
  std::map<uid_t, Queue> queues;
  std::size_t descriptors = 0;  // in all queues
  std::size_t threads = 0;
  std::size_t idle = 0;
  bool stopped = false;

  [[nodiscard]] Queue* next(uid_t& account) {
    for (auto& [key, queue] : queues) {
      if (queue.busy || queue.items.empty()) continue;
      account = key;
      return &queue;
    }
    return nullptr;
  }
};

void forbid_linger(int fd) {
  const linger none{.l_onoff = 1, .l_linger = 0};
  (void)raw::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

Disposal::Disposal() : state_(std::make_shared<State>()) {}

Disposal::~Disposal() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  state_->wake.notify_all();
}

void Disposal::take(uid_t account, std::vector<OwnedFd> fds) {
  if (fds.empty()) return;
  const std::size_t count = fds.size();
  put(account, {std::move(fds), nullptr, count});
}

void Disposal::put(uid_t account, Item item) {
  const std::lock_guard lock(state_->mutex);
  State::Queue& queue = state_->queues[account];
  queue.descriptors += item.descriptors;
  state_->descriptors += item.descriptors;
  queue.items.push_back(std::move(item));
  if (state_->idle > 0 || state_->threads == kThreadsMax) return state_->wake.notify_one();
  ++state_->threads;
  try {
    std::thread([state = state_] { work(state); }).detach();
  } catch (const std::system_error&) {
    --state_->threads;  // no more tasks for this service; existing ones continue
  }
}

std::size_t Disposal::waiting(uid_t account) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->queues.find(account);
  return found == state_->queues.end() ? 0 : found->second.descriptors;
}

std::size_t Disposal::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->descriptors;
}

void Disposal::work(const std::shared_ptr<State>& state) {
  sigset_t all;
  sigfillset(&all);
  (void)::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(state->mutex);
  while (!state->stopped) {
    uid_t account = 0;
    State::Queue* queue = state->next(account);
    if (queue == nullptr) {
      ++state->idle;
      state->wake.wait(lock);
      --state->idle;
      continue;
    }
    Item item = std::move(queue->items.front());
    queue->items.pop_front();
    queue->busy = true;
    lock.unlock();
    for (const OwnedFd& fd : item.fds) forbid_linger(fd.get());
    item.fds.clear();
    item.owner.reset();
    lock.lock();
    queue->busy = false;
    queue->descriptors -= item.descriptors;
    state->descriptors -= item.descriptors;
    if (queue->items.empty() && queue->descriptors == 0) state->queues.erase(account);
  }
  --state->threads;
}

}  // namespace rrdma::daemon
