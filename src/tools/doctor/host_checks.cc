// Checks of the host: the kernel, the system calls and socket options that RRDMA uses, and limits. A check
// tries the call itself if possible, because a setting in /proc is less reliable.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/format.h"
#include "base/owned_fd.h"
#include "tools/doctor/finding.h"
#include "tools/run/library_file.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace rrdma::tools {
namespace {

constexpr int kKernelMajorMin = 4, kKernelMinorMin = 18;  // UDP segmentation, memfd seals
constexpr std::uint64_t kBufferWanted = 4u << 20;
constexpr std::uint64_t kBufferEnough = 1u << 20;
constexpr std::uint64_t kBufferLeast = 64u << 10;  // one burst of packets
constexpr rlim_t kDescriptorsEnough = 1024;
constexpr rlim_t kDescriptorsLeast = 64;

// Reads a number from a file in /proc. Empty if there is no such file.
std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

std::string error_text(int error) { return std::strerror(error); }

OwnedFd udp_socket() { return OwnedFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

// The largest socket buffer for this process: the lower of the setting and the size that the kernel grants. A
// container may show a setting that does not apply.
std::uint64_t buffer_limit(const char* setting, int option) {
  const OwnedFd socket = udp_socket();
  const int wanted = static_cast<int>(kBufferWanted);
  int given = 0;
  socklen_t size = sizeof given;
  ::setsockopt(socket.get(), SOL_SOCKET, option, &wanted, sizeof wanted);
  std::uint64_t limit = kBufferWanted;
  // The kernel doubles the requested size for its own bookkeeping.
  if (::getsockopt(socket.get(), SOL_SOCKET, option, &given, &size) == 0)
    limit = static_cast<std::uint64_t>(given) / 2;
  return std::min(limit, number_in(setting).value_or(limit));
}

Finding check_buffer(const char* subject, const char* name, const char* setting, int option,
                     const char* harm) {
  const std::uint64_t limit = buffer_limit(setting, option);
  Finding finding{.subject = subject, .sentence = formatted("{} allows {} KiB", name, limit / 1024)};
  if (limit >= kBufferEnough) return finding;
  finding.health = limit < kBufferLeast ? Health::kBad : Health::kWarn;
  finding.sentence += formatted(": {}", harm);
  finding.remedy =
      formatted("as root: sysctl -w {}={} (to keep it: /etc/sysctl.d/90-rrdma.conf)", name, kBufferWanted);
  return finding;
}

}  // namespace

Finding check_kernel() {
  utsname name{};
  ::uname(&name);
  int major = 0, minor = 0;
  std::sscanf(name.release, "%d.%d", &major, &minor);
  Finding finding{.subject = "kernel", .sentence = formatted("Linux {} on {}", name.release, name.machine)};
  if (major < kKernelMajorMin || (major == kKernelMajorMin && minor < kKernelMinorMin)) {
    finding.health = Health::kWarn;
    finding.sentence +=
        formatted(": older than {}.{}, packets go one by one", kKernelMajorMin, kKernelMinorMin);
    finding.remedy = "use a newer kernel if speed matters";
  }
  return finding;
}

// Loads the library in a child process, so that it does not stay in this one.
Finding check_library() {
  const std::string path = find_library();
  if (path.empty()) {
    return {Health::kBad, "library",
            "librrdma.so.1 is not where this rrdma looks for it, in ../lib beside its own folder",
            "install RRDMA whole, or build the target `products`"};
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return {Health::kWarn, "library", "cannot be tried: " + error_text(errno), "close programs"};
  const OwnedFd reading(ends[0]);
  OwnedFd writing(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      const char* why = ::dlerror();
      if (why != nullptr && ::write(writing.get(), why, std::strlen(why)) < 0) ::_exit(2);
      ::_exit(1);
    }
    ::_exit(0);
  }
  writing.reset();
  char why[512] = {};
  const ssize_t length = ::read(reading.get(), why, sizeof why - 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return {.subject = "library", .sentence = path};
  return {Health::kBad, "library", formatted("{} cannot be loaded: {}", path, length > 0 ? why : "it failed"),
          "install what is missing (Debian: apt-get install libibverbs1 librdmacm1)"};
}

Finding check_io_uring() {
  io_uring_params parameters{};
  const OwnedFd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters)));
  if (ring) return {.subject = "io_uring", .sentence = "available"};
  const int error = errno;
  Finding finding{Health::kWarn, "io_uring", "", ""};
  const auto disabled = number_in("/proc/sys/kernel/io_uring_disabled");
  if (error == ENOSYS) {
    finding.sentence = "this kernel has none";
    finding.remedy =
        "nothing needs to be done: plain system calls carry everything; a kernel from 5.6 on has it";
  } else if (disabled.value_or(0) != 0) {
    finding.sentence = formatted("disabled by the administrator (kernel.io_uring_disabled = {})", *disabled);
    finding.remedy =
        "as root: sysctl -w kernel.io_uring_disabled=0; without it plain system calls carry everything";
  } else {
    finding.sentence =
        formatted("disabled: io_uring_setup fails ({}), as under the seccomp profile of a container",
                  error_text(error));
    finding.remedy =
        "allow io_uring_setup, io_uring_enter and io_uring_register (docker run --security-opt "
        "seccomp=PROFILE); without it plain system calls carry everything";
  }
  return finding;
}

Finding check_segmentation() {
  const OwnedFd socket = udp_socket();
  const int octets = 1024, on = 1;
  const bool send = ::setsockopt(socket.get(), IPPROTO_UDP, UDP_SEGMENT, &octets, sizeof octets) == 0;
  const bool receive = ::setsockopt(socket.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0;
  if (send && receive)
    return {.subject = "UDP trains", .sentence = "many packets in one system call, both ways (GSO, GRO)"};
  return {Health::kWarn, "UDP trains",
          formatted("the kernel has no UDP {}: packets go one by one", send ? "GRO" : "GSO"),
          "use a kernel from 5.0 on if speed between hosts matters"};
}

// Tries to attach the classic BPF program that steers packets to processes, on an unused port.
Finding check_steering() {
  const OwnedFd socket = udp_socket();
  const int on = 1;
  sock_filter answer = {.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program = {.len = 1, .filter = &answer};
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 &&
      ::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0) {
    return {.subject = "steering", .sentence = "one port for many processes (SO_REUSEPORT with a filter)"};
  }
  return {Health::kBad, "steering", "the kernel refuses SO_ATTACH_REUSEPORT_CBPF: " + error_text(errno),
          "run outside of this sandbox (gVisor and its like have no such option)"};
}

Finding check_receive_buffer() {
  return check_buffer("receive buffer", "net.core.rmem_max", "/proc/sys/net/core/rmem_max", SO_RCVBUF,
                      "few packets fit while a program is busy, so senders go slower");
}

Finding check_send_buffer() {
  return check_buffer("send buffer", "net.core.wmem_max", "/proc/sys/net/core/wmem_max", SO_SNDBUF,
                      "bursts are cut short");
}

Finding check_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  Finding finding{.subject = "open files", .sentence = formatted("ulimit -n is {}", limit.rlim_cur)};
  if (limit.rlim_cur >= kDescriptorsEnough) return finding;
  finding.health = limit.rlim_cur < kDescriptorsLeast ? Health::kBad : Health::kWarn;
  finding.sentence += ": a program takes about ten for RRDMA, and a few for each peer process on this host";
  finding.remedy = limit.rlim_max > limit.rlim_cur
                       ? formatted("ulimit -n {}", limit.rlim_max)
                       : "raise it in /etc/security/limits.conf (nofile), and log in again";
  return finding;
}

Finding check_direct_access() {
  // Of this process: Yama permits that, a seccomp filter does not.
  char from = 1, to = 0;
  iovec local{.iov_base = &to, .iov_len = 1}, remote{.iov_base = &from, .iov_len = 1};
  if (::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) != 1) {
    return {
        Health::kWarn, "direct memory",
        formatted("process_vm_readv fails ({}), as under the seccomp profile of a container: READ and WRITE "
                  "within this host go through a ring in shared memory, with one copy more",
                  error_text(errno)),
        "if that speed matters, allow process_vm_readv and process_vm_writev (docker run --security-opt "
        "seccomp=PROFILE)"};
  }
  const std::uint64_t scope = number_in("/proc/sys/kernel/yama/ptrace_scope").value_or(0);
  if (scope == 0)
    return {.subject = "direct memory", .sentence = "programs of one user may copy from each other's memory"};
  return {Health::kWarn, "direct memory",
          formatted("kernel.yama.ptrace_scope is {}: READ and WRITE within this host go through a ring in "
                    "shared memory, with one copy more",
                    scope),
          "as root, if that speed matters: sysctl -w kernel.yama.ptrace_scope=0"};
}

}  // namespace rrdma::tools
