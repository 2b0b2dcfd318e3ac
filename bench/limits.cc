// limits: measures the limits of this machine as a reference for the figures of programs: a cache line passed
// between two cores, process_vm_writev, bare UDP sockets on the loopback device, memcpy and CRC-32.
// Measurements with two sides use two processes, one on each core of --cores=A,B, both polling. Round trips
// are medians of batches, halved. Each figure takes --milliseconds=N.
//
//   limits --cores=0,1 --milliseconds=200 [NAME...]     prints one JSON object, NAME: value
//
// An alarm ends the program if it hangs.
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "wire/crc32.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kSecondsMax = 60;
constexpr std::size_t kPingOctets = 8;
constexpr std::size_t kSegment = 4096;
constexpr std::size_t kTrain = 15 * kSegment;
constexpr std::size_t kStretch = 1 << 20;
constexpr int kReceiveBuffer = 4 << 20;
constexpr std::size_t kCacheLine = 128;
constexpr unsigned kRoundTripsInBatch = 16;

struct Plan {
  int near_core = 0;
  int far_core = 1;
  Clock::duration time = std::chrono::milliseconds(200);
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Shared between both processes.
struct Shared {
  alignas(kCacheLine) std::atomic<std::uint64_t> ping{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> pong{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> taken{0};  // bytes
};

Shared& make_shared_page() {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  return *new (memory) Shared;
}

// The other side: a child on the far core that runs `body` until it is killed.
class FarSide {
 public:
  FarSide(const Plan& plan, const std::function<void()>& body) {
    pid_ = fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pin(plan.far_core);
      body();
      _exit(0);
    }
    pin(plan.near_core);
  }
  ~FarSide() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  FarSide(const FarSide&) = delete;
  FarSide& operator=(const FarSide&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

// Median of half a round trip, in microseconds.
double half_round_trip(const Plan& plan, const std::function<void(std::uint64_t)>& round_trip) {
  std::vector<double> halves;
  std::uint64_t count = 0;
  const auto batch = [&] {
    for (unsigned i = 0; i < kRoundTripsInBatch; ++i) round_trip(++count);
  };
  batch();  // wait until the far side is ready
  const auto begin = Clock::now();
  while (Clock::now() - begin < plan.time) {
    const auto start = Clock::now();
    batch();
    halves.push_back(seconds_since(start) * 1e6 / kRoundTripsInBatch / 2);
  }
  return median(halves);
}

double cache_line(const Plan& plan) {
  Shared& shared = make_shared_page();
  const FarSide far(plan, [&shared] {
    for (std::uint64_t next = 1;; ++next) {
      while (shared.ping.load(std::memory_order_acquire) != next) {
      }
      shared.pong.store(next, std::memory_order_release);
    }
  });
  return half_round_trip(plan, [&shared](std::uint64_t count) {
    shared.ping.store(count, std::memory_order_release);
    while (shared.pong.load(std::memory_order_acquire) != count) {
    }
  });
}

// At the same address in both processes, but not shared: each process writes into the other's.
alignas(kCacheLine) std::atomic<std::uint64_t> mailbox{0};

void write_into(pid_t peer, std::uint64_t value) {
  iovec from{&value, sizeof value};
  iovec to{&mailbox, sizeof mailbox};
  if (process_vm_writev(peer, &from, 1, &to, 1, 0) != static_cast<ssize_t>(sizeof value))
    fail("process_vm_writev");
}

double writev_pingpong(const Plan& plan) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  mailbox = 0;
  const pid_t parent = getpid();
  const FarSide far(plan, [parent] {
    for (std::uint64_t next = 1;; ++next) {
      while (mailbox.load(std::memory_order_acquire) != next) {
      }
      write_into(parent, next);
    }
  });
  return half_round_trip(plan, [&far](std::uint64_t count) {
    write_into(far.pid(), count);
    while (mailbox.load(std::memory_order_acquire) != count) {
    }
  });
}

// Gigabytes (10^9) per second of `body`, which moves `octets` bytes.
double gigabytes_per_second(const Plan& plan, std::size_t octets, const std::function<void()>& body) {
  body();
  const unsigned inner = static_cast<unsigned>(std::max<std::size_t>(1, (1 << 18) / octets));
  std::vector<double> rates;
  const auto begin = Clock::now();
  while (Clock::now() - begin < plan.time) {
    const auto start = Clock::now();
    for (unsigned i = 0; i < inner; ++i) body();
    rates.push_back(static_cast<double>(octets * inner) / seconds_since(start) / 1e9);
  }
  return median(rates);
}

double writev_stream(const Plan& plan, std::size_t octets) {
  std::vector<std::uint8_t> from(octets, 1);
  std::vector<std::uint8_t> to(octets, 2);
  const FarSide far(plan, [] { pause(); });
  return gigabytes_per_second(plan, octets, [&] {
    iovec local{from.data(), octets};
    iovec remote{to.data(), octets};
    if (process_vm_writev(far.pid(), &local, 1, &remote, 1, 0) != static_cast<ssize_t>(octets))
      fail("process_vm_writev");
  });
}

struct SocketPair {
  int near = -1;
  int far = -1;

  SocketPair() {
    near = bound();
    far = bound();
    join(near, far);
    join(far, near);
  }
  ~SocketPair() {
    close(near);
    close(far);
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;

 private:
  static int bound() {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("socket");
    return fd;
  }
  static void join(int fd, int peer) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (getsockname(peer, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        connect(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) {
      fail("connect");
    }
  }
};

void send_ping(int fd, std::uint64_t count) {
  if (send(fd, &count, kPingOctets, 0) != static_cast<ssize_t>(kPingOctets)) fail("send");
}

void await_ping(int fd) {
  std::uint64_t count = 0;
  while (recv(fd, &count, sizeof count, MSG_DONTWAIT) < 0) {
    if (errno != EAGAIN) fail("recv");
  }
}

double udp_pingpong(const Plan& plan) {
  const SocketPair sockets;
  const FarSide far(plan, [&sockets] {
    for (std::uint64_t next = 1;; ++next) {
      await_ping(sockets.far);
      send_ping(sockets.far, next);
    }
  });
  return half_round_trip(plan, [&sockets](std::uint64_t count) {
    send_ping(sockets.near, count);
    await_ping(sockets.near);
  });
}

void drain(int fd, std::atomic<std::uint64_t>& taken) {
  std::vector<std::uint8_t> buffer(1 << 16);
  for (;;) {
    const ssize_t octets = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (octets > 0) taken.fetch_add(static_cast<std::uint64_t>(octets), std::memory_order_release);
  }
}

// Streams bursts of 4 KiB datagrams, segmented and coalesced by the kernel. A shared counter keeps the sender
// within the receiver's buffer. Lost datagrams are given up after a timeout. The result is the median over
// stretches, so that a temporarily preempted core does not count.
double udp_stream(const Plan& plan) {
  const SocketPair sockets;
  const int on = 1;
  const int segment = static_cast<int>(kSegment);
  if (setsockopt(sockets.near, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0) fail("UDP_SEGMENT");
  if (setsockopt(sockets.far, IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0) fail("UDP_GRO");
  (void)setsockopt(sockets.far, SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
  int granted = 0;
  socklen_t size = sizeof granted;
  getsockopt(sockets.far, SOL_SOCKET, SO_RCVBUF, &granted, &size);
  const std::uint64_t window = std::max<std::uint64_t>(kTrain, static_cast<std::uint64_t>(granted) / 4);

  Shared& shared = make_shared_page();
  const FarSide far(plan, [&] { drain(sockets.far, shared.taken); });
  const std::vector<std::uint8_t> train(kTrain, 3);
  std::vector<double> rates;
  std::uint64_t sent = 0;
  std::uint64_t seen = 0;
  const auto begin = Clock::now();
  auto since = begin;
  // Records the rate of each completely received stretch. Returns the number of received bytes.
  const auto look = [&] {
    const std::uint64_t taken = shared.taken.load(std::memory_order_acquire);
    if (taken - seen >= kStretch) {
      rates.push_back(static_cast<double>(taken - seen) / seconds_since(since) / 1e9);
      seen = taken;
      since = Clock::now();
    }
    return taken;
  };
  while (Clock::now() - begin < plan.time) {
    const auto stalled = Clock::now();
    while (sent > look() + window) {
      if (Clock::now() - stalled > std::chrono::milliseconds(100)) sent = shared.taken.load();
    }
    const ssize_t octets = send(sockets.near, train.data(), train.size(), 0);
    if (octets > 0) sent += static_cast<std::uint64_t>(octets);
  }
  return median(rates);
}

double copy_stream(const Plan& plan, std::size_t octets) {
  pin(plan.near_core);
  std::vector<std::uint8_t> from(octets, 1);
  std::vector<std::uint8_t> to(octets, 2);
  return gigabytes_per_second(plan, octets, [&] {
    std::memcpy(to.data(), from.data(), octets);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
}

double crc_stream(const Plan& plan, std::size_t octets) {
  pin(plan.near_core);
  const std::vector<std::uint8_t> data(octets, 1);
  std::uint32_t crc = 0;
  return gigabytes_per_second(plan, octets, [&] {
    crc = rrdma::wire::crc32_extend(crc, data);
    asm volatile("" : : "r"(crc) : "memory");
  });
}

struct Limit {
  const char* name;
  std::function<double(const Plan&)> measure;
};

const std::vector<Limit>& limits() {
  static const std::vector<Limit> all = {
      {"cache_line_us", cache_line},
      {"process_vm_us", writev_pingpong},
      {"process_vm_64k", [](const Plan& plan) { return writev_stream(plan, 64 << 10); }},
      {"process_vm_1m", [](const Plan& plan) { return writev_stream(plan, 1 << 20); }},
      {"udp_us", udp_pingpong},
      {"udp_gso", udp_stream},
      {"memcpy_64k", [](const Plan& plan) { return copy_stream(plan, 64 << 10); }},
      {"memcpy_1m", [](const Plan& plan) { return copy_stream(plan, 1 << 20); }},
      {"memcpy_64m", [](const Plan& plan) { return copy_stream(plan, 64 << 20); }},
      {"crc_64", [](const Plan& plan) { return crc_stream(plan, 64); }},
      {"crc_4k", [](const Plan& plan) { return crc_stream(plan, 4096); }},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    int milliseconds = 0;
    if (std::sscanf(argv[i], "--cores=%d,%d", &plan.near_core, &plan.far_core) == 2) continue;
    if (std::sscanf(argv[i], "--milliseconds=%d", &milliseconds) == 1) {
      plan.time = std::chrono::milliseconds(milliseconds);
      continue;
    }
    names.emplace_back(argv[i]);
  }
  alarm(kSecondsMax);
  const char* separator = "{";
  for (const Limit& limit : limits()) {
    if (!names.empty() && std::find(names.begin(), names.end(), limit.name) == names.end()) continue;
    std::printf("%s\"%s\": %.6g", separator, limit.name, limit.measure(plan));
    std::fflush(stdout);
    separator = ", ";
  }
  if (*separator == '{') {
    std::fprintf(stderr, "limits: no such name\n");
    return 2;
  }
  std::puts("}");
  return 0;
}
