// Descriptors: the program controls its own descriptor numbers and cannot reach ours.
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <set>
#include <string>

#include "cases.h"
#include "talk.h"
#include "verdict.h"

namespace guest {
namespace {

std::set<int> open_descriptors() {
  std::set<int> numbers;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) proof::fail_errno("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != ::dirfd(folder))
      numbers.insert(std::atoi(entry->d_name));
  }
  ::closedir(folder);
  return numbers;
}

void close_all_by_loop() {
  Talk talk;
  talk.exchange();
  for (int fd = 3; fd < 4096; ++fd) ::close(fd);
  talk.exchange(100);
}

void close_all_by_closefrom() {
  Talk talk;
  talk.exchange();
  ::closefrom(3);
  talk.exchange(100);
}

void close_all_by_range() {
  Talk talk;
  talk.exchange();
  if (::close_range(3, ~0u, 0) != 0) proof::fail_errno("close_range");
  talk.exchange(100);
  const int own = ::open("/dev/null", O_RDONLY);
  if (own > 8) proof::fail("the first free number is " + std::to_string(own));
}

void the_low_numbers_stay_free() {
  const std::set<int> before = open_descriptors();
  Talk talk;
  int low = 0;
  for (const int fd : open_descriptors()) {
    if (fd < 256 && before.count(fd) == 0) ++low;
  }
  // The program sees the device's two files and nothing else.
  if (low > 3) proof::fail(std::to_string(low) + " low numbers are taken");
  talk.exchange();
}

void written_over() {
  Talk talk;
  talk.exchange();
  const int file = ::open("/dev/null", O_WRONLY);
  int refused = 0;
  for (const int fd : open_descriptors()) {
    if (fd < 256 || fd == file) continue;
    if (::dup2(file, fd) < 0 && errno == EBUSY) ++refused;
  }
  if (refused == 0) proof::fail("no descriptor of the library was found");
  talk.exchange(100);
  if (::dup2(file, 200) != 200 || ::close(200) != 0) proof::fail_errno("dup2 to a free number");
}

// By system calls that cannot be hooked: the program has harmed itself, but must neither hang nor spin.
void closed_behind_our_back() {
  Talk talk(true);
  talk.exchange();
  if (::syscall(SYS_close_range, 3, ~0u, 0) != 0) proof::fail_errno("close_range");
  const double before = proof::cpu_seconds();
  const timespec pause{.tv_sec = 1, .tv_nsec = 0};
  ::nanosleep(&pause, nullptr);
  const double used = proof::cpu_seconds() - before;
  if (used > 0.3) proof::fail("spins: " + std::to_string(used) + " s of CPU time in one second");
  proof::say("fine");
  ::_exit(0);
}

void fstat_tells_the_truth() {
  const int cm = ::open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (::fstat(cm, &status) != 0 || !S_ISCHR(status.st_mode)) proof::fail("rdma_cm is no character device");
  const int file = ::open("/proc/self/exe", O_RDONLY);
  const auto expect_file = [&](const char* how) {
    if (::fstat(cm, &status) != 0 || !S_ISREG(status.st_mode))
      proof::fail(std::string("after ") + how + " fstat still tells of the channel");
  };
  if (::dup2(file, cm) != cm) proof::fail_errno("dup2");
  expect_file("dup2");
  const int second = ::open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  ::close_range(static_cast<unsigned>(second), static_cast<unsigned>(second), 0);
  if (::fstat(second, &status) != -1 || errno != EBADF) proof::fail("a closed channel is still there");
  const int third = ::open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  ::syscall(SYS_dup3, file, third, 0);
  if (::fstat(third, &status) != 0 || !S_ISREG(status.st_mode)) proof::fail("after a raw dup3 fstat lies");
}

constexpr Case kCases[] = {
    {"close_all_by_loop", close_all_by_loop},
    {"close_all_by_closefrom", close_all_by_closefrom},
    {"close_all_by_range", close_all_by_range},
    {"the_low_numbers_stay_free", the_low_numbers_stay_free},
    {"written_over", written_over},
    {"closed_behind_our_back", closed_behind_our_back},
    {"fstat_tells_the_truth", fstat_tells_the_truth},
};

}  // namespace

std::span<const Case> descriptor_cases() { return kCases; }

}  // namespace guest
