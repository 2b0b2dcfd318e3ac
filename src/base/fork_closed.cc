#include "base/fork_closed.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/raw_syscall.h"

namespace rrdma {
namespace {

constexpr int kTracked = 65536;
std::array<std::atomic<std::uint64_t>, kTracked / 64> marks{};

bool tracked(int fd) { return fd >= 0 && fd < kTracked; }
std::atomic<std::uint64_t>& word(int fd) { return marks[static_cast<std::size_t>(fd) / 64]; }
std::uint64_t bit(int fd) { return std::uint64_t{1} << (fd % 64); }

}  // namespace

void mark_fork_closed(int fd) {
  if (tracked(fd)) word(fd).fetch_or(bit(fd));
}

void unmark_fork_closed(int fd) {
  if (tracked(fd)) word(fd).fetch_and(~bit(fd));
}

void close_marked_after_fork() {
  for (std::size_t i = 0; i < marks.size(); ++i) {
    for (std::uint64_t left = marks[i].exchange(0); left != 0; left &= left - 1) {
      raw::close(static_cast<int>(i * 64) + std::countr_zero(left));
    }
  }
}

}  // namespace rrdma
