// Reads a file through io_uring, one request after the other, and prints each step: the request in the
// submission queue, the single system call, and the completion.
//   uring_file_read FILE
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "examples/io_uring/ring.h"

namespace examples {
namespace {

constexpr std::size_t kPiece = 64 * 1024;
constexpr unsigned kShown = 3;

int run(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path, errno);
  Ring ring(8);
  std::printf("1. Ring: two queues in memory that the kernel and this program share\n");
  std::vector<std::uint8_t> buffer(kPiece);
  std::uint64_t offset = 0;
  std::uint64_t sum = 0;
  for (unsigned round = 1;; ++round) {
    io_uring_sqe* request = ring.request();
    io_uring_prep_read(request, file, buffer.data(), kPiece, offset);
    io_uring_sqe_set_data(request, buffer.data());
    ring.submit();
    const Ring::Completion done = ring.wait();
    if (done.result < 0) fail(path, done.result);
    if (round <= kShown) {
      std::printf("%u. Submitted: read %zu bytes at offset %llu; completed: %d\n", round + 1, kPiece,
                  static_cast<unsigned long long>(offset), done.result);
    }
    if (done.result == 0) break;
    for (int i = 0; i < done.result; ++i) sum += buffer[static_cast<std::size_t>(i)];
    offset += static_cast<std::uint64_t>(done.result);
  }
  close(file);
  std::printf("%llu bytes, their sum is %llu\n", static_cast<unsigned long long>(offset),
              static_cast<unsigned long long>(sum));
  return 0;
}

}  // namespace
}  // namespace examples

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", words[0]);
    return 2;
  }
  return examples::run(words[1]);
}
