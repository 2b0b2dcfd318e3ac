// Ring: an io_uring that is closed at the end of its scope, and its error reports.
#pragma once

#include <liburing.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace examples {

// io_uring returns -errno and does not set errno.
[[noreturn]] inline void fail(const char* what, int error) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(error < 0 ? -error : error));
  std::exit(1);
}

class Ring {
 public:
  explicit Ring(unsigned entries) {
    if (const int status = io_uring_queue_init(entries, &ring_, 0); status < 0)
      fail("io_uring_queue_init", status);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { io_uring_queue_exit(&ring_); }

  [[nodiscard]] io_uring* operator&() { return &ring_; }

  // Returns a free submission queue entry. Never null: if the queue is full, it is submitted first.
  [[nodiscard]] io_uring_sqe* request() {
    io_uring_sqe* place = io_uring_get_sqe(&ring_);
    while (place == nullptr) {
      submit();
      place = io_uring_get_sqe(&ring_);
    }
    return place;
  }
  void submit() {
    if (const int status = io_uring_submit(&ring_); status < 0) fail("io_uring_submit", status);
  }

  struct Completion {
    void* data;
    int result;
    unsigned flags;
  };
  [[nodiscard]] Completion wait() {
    io_uring_cqe* entry = nullptr;
    int status = 0;
    do {
      status = io_uring_wait_cqe(&ring_, &entry);
    } while (status == -EINTR);
    if (status < 0) fail("io_uring_wait_cqe", status);
    const Completion completion{io_uring_cqe_get_data(entry), entry->res, entry->flags};
    io_uring_cqe_seen(&ring_, entry);
    return completion;
  }

 private:
  io_uring ring_{};
};

}  // namespace examples
