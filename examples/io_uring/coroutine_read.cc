// Reads several files concurrently with C++20 coroutines. `co_await read(…)` puts a request into the ring and
// suspends; the loop resumes the coroutine of the next completion. It needs one thread and no locks, and each
// coroutine reads like blocking code.
//   uring_coroutine_read FILE…
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <coroutine>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/io_uring/ring.h"

namespace examples {
namespace {

constexpr std::size_t kPiece = 16 * 1024;

// A coroutine that starts immediately. Its frame is destroyed when it ends.
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
};

// Awaits one completion. The object stays in the coroutine's frame until then.
class Read {
 public:
  Read(Ring& ring, int file, std::vector<std::uint8_t>& buffer, std::uint64_t offset)
      : ring_(ring), file_(file), buffer_(buffer), offset_(offset) {}
  [[nodiscard]] bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    io_uring_sqe* request = ring_.request();
    io_uring_prep_read(request, file_, buffer_.data(), static_cast<unsigned>(buffer_.size()), offset_);
    io_uring_sqe_set_data(request, this);
  }
  [[nodiscard]] int await_resume() const { return result_; }

  void complete(int result) {
    result_ = result;
    waiter_.resume();
  }

 private:
  Ring& ring_;
  const int file_;
  std::vector<std::uint8_t>& buffer_;
  const std::uint64_t offset_;
  std::coroutine_handle<> waiter_;
  int result_ = 0;
};

Task read_file(Ring& ring, std::string path, unsigned& open_files) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path.c_str(), errno);
  ++open_files;
  std::vector<std::uint8_t> buffer(kPiece);
  std::uint64_t offset = 0;
  std::uint64_t sum = 0;
  for (;;) {
    const int octets = co_await Read(ring, file, buffer, offset);
    if (octets < 0) fail(path.c_str(), octets);
    if (octets == 0) break;
    for (int i = 0; i < octets; ++i) sum += buffer[static_cast<std::size_t>(i)];
    offset += static_cast<std::uint64_t>(octets);
  }
  close(file);
  --open_files;
  std::printf("%s: %llu bytes, their sum is %llu\n", path.c_str(), static_cast<unsigned long long>(offset),
              static_cast<unsigned long long>(sum));
}

int run(int count, char** paths) {
  Ring ring(64);
  unsigned open_files = 0;
  for (int i = 0; i < count; ++i) read_file(ring, paths[i], open_files);
  std::printf("Reading %u files at the same time\n", open_files);
  while (open_files > 0) {
    ring.submit();
    const Ring::Completion done = ring.wait();
    static_cast<Read*>(done.data)->complete(done.result);
  }
  return 0;
}

}  // namespace
}  // namespace examples

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s FILE...\n", words[0]);
    return 2;
  }
  return examples::run(count - 1, words + 1);
}
