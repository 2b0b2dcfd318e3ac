// Threads: many, short-lived, and canceled in the middle of a call.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cases.h"
#include "talk.h"
#include "verdict.h"

namespace guest {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

// GUEST_THREADS: 64 in the short form, 1,024 in the long one.
void many_threads() {
  const int count = from_environment("GUEST_THREADS", 64);
  Talk talk;
  std::atomic<int> polls{0};
  std::atomic<bool> go{false};
  ibv_cq* cq = talk.device().create_cq(16);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      while (!go) std::this_thread::yield();
      for (int k = 0; k < 10; ++k) {
        ibv_wc nothing;
        if (ibv_poll_cq(cq, 1, &nothing) != 0) proof::fail("a completion out of nothing");
        ++polls;
        std::this_thread::yield();
      }
    });
  }
  go = true;
  talk.exchange(20);
  for (std::thread& thread : threads) thread.join();
  if (polls != count * 10) proof::fail("a thread is missing");
  ibv_destroy_cq(cq);
}

void threads_that_die() {
  Talk talk;
  for (int i = 0; i < 50; ++i) {
    std::thread([&] { talk.exchange(); }).join();
    pthread_t thread;
    // A thread that ends in the middle of a sleep.
    if (pthread_create(
            &thread, nullptr,
            [](void*) -> void* {
              for (;;) ::pause();
            },
            nullptr) != 0)
      proof::fail("pthread_create");
    pthread_cancel(thread);
    pthread_join(thread, nullptr);
  }
  talk.exchange();
}

// A thread with the smallest possible stack.
void small_stacks() {
  Talk talk;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  pthread_t thread;
  if (pthread_create(
          &thread, &attributes,
          [](void* given) -> void* {
            static_cast<Talk*>(given)->exchange(10);
            return nullptr;
          },
          &talk) != 0)
    proof::fail("pthread_create");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

void main_thread_leaves() {
  static Talk talk;
  std::thread([] {
    talk.exchange(10);
    proof::say("fine");
    ::_exit(0);
  }).detach();
  pthread_exit(nullptr);
}

constexpr Case kCases[] = {
    {"many_threads", many_threads},
    {"threads_that_die", threads_that_die},
    {"small_stacks", small_stacks},
    {"main_thread_leaves", main_thread_leaves},
};

}  // namespace

std::span<const Case> thread_cases() { return kCases; }

}  // namespace guest
