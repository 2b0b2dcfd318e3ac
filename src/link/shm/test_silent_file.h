// SilentFile, for tests: a file of a FUSE server that never answers when somebody asks for the file's
// attributes or closes it. Any user can make such a file, with fusermount or in a user namespace; the test
// needs root and /dev/fuse.
//
// A process that has the file open and ends waits until end() was called, too.
#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rrdma::link {

class SilentFile {
 public:
  SilentFile() {
    std::array<int, 2> ready{};
    if (::geteuid() != 0 || ::mkdtemp(folder_.data()) == nullptr || ::pipe(end_.data()) != 0 ||
        ::pipe(ready.data()) != 0)
      return;
    server_ = ::fork();
    if (server_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ready[0]);
      ::_exit(serve(ready[1]));
    }
    ::close(ready[1]);
    char byte = 0;
    ready_ = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
  }
  ~SilentFile() {
    end();
    if (server_ > 0) ::waitpid(server_, nullptr, 0);
    (void)::rmdir(folder_.c_str());
  }
  SilentFile(const SilentFile&) = delete;
  SilentFile& operator=(const SilentFile&) = delete;

  // False: this system has no FUSE, or does not allow it.
  [[nodiscard]] bool works() const { return ready_; }
  // A descriptor. REQUIRES: root.
  [[nodiscard]] int open() const {
    const std::string path = "/proc/" + std::to_string(server_) + "/root" + folder_ + "/silent";
    return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  // Ends the server: whoever waits for it gets an error. From any process.
  void end() const { (void)!::write(end_[1], "", 1); }

 private:
  static constexpr std::uint64_t kFile = 2;  // its node; the folder is 1

  static void answer(int device, std::uint64_t unique, int error, const void* body, std::size_t octets) {
    fuse_out_header head{};
    head.len = static_cast<std::uint32_t>(sizeof head + octets);
    head.error = -error;
    head.unique = unique;
    const std::array<iovec, 2> pieces = {{{&head, sizeof head}, {const_cast<void*>(body), octets}}};
    (void)!::writev(device, pieces.data(), octets == 0 ? 1 : 2);
  }

  int serve(int ready) {
    const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    const std::string options =
        "fd=" + std::to_string(device) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    if (device < 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("silent", folder_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
      return 1;
    std::vector<std::uint8_t> request(std::size_t{256} << 10);
    std::array<pollfd, 2> events = {{{device, POLLIN, 0}, {end_[0], POLLIN, 0}}};
    while (::poll(events.data(), events.size(), -1) > 0 && (events[1].revents & POLLIN) == 0) {
      if (::read(device, request.data(), request.size()) < static_cast<ssize_t>(sizeof(fuse_in_header)))
        continue;
      fuse_in_header head;
      std::memcpy(&head, request.data(), sizeof head);
      if (head.opcode == FUSE_INIT) (void)!::write(ready, "", 1);
      handle(device, head);
    }
    return 0;
  }

  static void handle(int device, const fuse_in_header& head) {
    fuse_attr file{};
    file.ino = kFile;
    file.size = 65536;
    file.mode = S_IFREG | 0666;
    file.nlink = 1;
    switch (head.opcode) {
      case FUSE_INIT: {
        fuse_init_out out{};
        out.major = FUSE_KERNEL_VERSION;
        out.minor = 31;
        out.max_write = 65536;
        return answer(device, head.unique, 0, &out, sizeof out);
      }
      case FUSE_LOOKUP: {
        fuse_entry_out out{};
        out.nodeid = kFile;
        out.attr = file;
        return answer(device, head.unique, 0, &out, sizeof out);
      }
      case FUSE_OPEN: {
        const fuse_open_out out{};
        return answer(device, head.unique, 0, &out, sizeof out);
      }
      case FUSE_GETATTR:
        if (head.nodeid != kFile) {
          fuse_attr_out out{};
          out.attr.ino = 1;
          out.attr.mode = S_IFDIR | 0755;
          out.attr.nlink = 2;
          return answer(device, head.unique, 0, &out, sizeof out);
        }
        return;
      case FUSE_FLUSH:
      case FUSE_STATFS: return;
      default: return answer(device, head.unique, ENOSYS, nullptr, 0);
    }
  }

  std::string folder_ = "/tmp/rrdma-silent.XXXXXX";
  std::array<int, 2> end_ = {-1, -1};
  pid_t server_ = -1;
  bool ready_ = false;
};

}  // namespace rrdma::link
