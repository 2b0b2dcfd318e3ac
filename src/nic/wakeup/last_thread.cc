#include "nic/wakeup/last_thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/instant.h"
#include "base/owned_fd.h"
#include "base/raw_syscall.h"

namespace rrdma::nic {
namespace {

constexpr std::size_t kOwnThreadsMax = 64;  // lanes of a process, and the watcher
constexpr Duration kFirstNap = milliseconds(2);
constexpr Duration kNapMax = milliseconds(50);

std::array<std::atomic<pid_t>, kOwnThreadsMax> own_threads{};
std::atomic<pid_t> numbers_of{0};  // the process that they are of
std::atomic<pid_t> left_in{0};     // the process whose main thread has left
std::atomic<pid_t> watched_in{0};  // the process that has a watcher

pid_t own_tid() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

bool is_own(pid_t tid) {
  return std::any_of(own_threads.begin(), own_threads.end(),
                     [&](const auto& own) { return own.load(std::memory_order_relaxed) == tid; });
}

// A main thread that has left stays in the list as a zombie.
bool has_ended(pid_t tid) {
  const std::string path = "/proc/self/task/" + std::to_string(tid) + "/stat";
  const OwnedFd file(raw::open(path.c_str(), O_RDONLY | O_CLOEXEC, 0));
  if (!file) return true;
  std::array<char, 256> text{};
  if (raw::read(file.get(), text.data(), text.size() - 1) <= 0) return true;
  const char* name_end = std::strrchr(text.data(), ')');
  return name_end != nullptr && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

// Also true if the list cannot be read.
bool has_program_threads() {
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return true;
  bool found = false;
  while (const dirent* entry = ::readdir(folder)) {
    const auto tid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    found |= tid > 0 && !is_own(tid) && !has_ended(tid);
  }
  ::closedir(folder);
  return found;
}

void* look_until_alone(void*) {
  const OwnThread own;
  Duration nap = kFirstNap;
  do {
    const timespec time{.tv_sec = 0, .tv_nsec = nap.ns};
    (void)raw::ppoll(nullptr, 0, &time);
    nap = std::min(nap * 2, kNapMax);
  } while (has_program_threads());
  std::exit(0);
}

void start_looking() {
  const pid_t process = raw::getpid();
  if (watched_in.exchange(process) == process) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, look_until_alone, nullptr) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void note_main_thread_left(void*) {
  left_in.store(raw::getpid());
  const bool lanes =
      std::any_of(own_threads.begin(), own_threads.end(), [](const auto& own) { return own.load() != 0; });
  if (lanes) start_looking();
}

pthread_key_t main_thread_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    (void)pthread_key_create(&made, note_main_thread_left);
    return made;
  }();
  return key;
}

// A preloaded library is initialised in the main thread.
__attribute__((constructor)) void watch_first_thread() { watch_main_thread(); }

}  // namespace

OwnThread::OwnThread() {
  for (auto& place : own_threads) {
    pid_t none = 0;
    if (place.compare_exchange_strong(none, own_tid())) break;
  }
  if (left_in.load() == raw::getpid()) start_looking();
}

OwnThread::~OwnThread() {
  for (auto& place : own_threads) {
    pid_t own = own_tid();
    if (place.compare_exchange_strong(own, 0)) break;
  }
}

// Numbers of threads mean nothing in a child: its threads have others.
void watch_main_thread() {
  const pid_t process = raw::getpid();
  if (numbers_of.exchange(process) != process) {
    for (auto& place : own_threads) place.store(0);
  }
  if (own_tid() == process) (void)pthread_setspecific(main_thread_key(), &own_threads);
}

}  // namespace rrdma::nic
