// For tests: two unprivileged processes (user nobody, if the tests run as root) with direct access to one
// another.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "link/shm/shm_link.h"
#include "link/shm/shm_test_frames.h"
#include "objects/memory.h"

namespace rrdma::link {

inline constexpr wire::Qpn kTargetQpn{0x010002};
inline constexpr wire::Qpn kInitiatorQpn{0x020003};
inline constexpr wire::RKey kRkey{0x12345678};
inline constexpr std::uint64_t kAddress = 0x10000;  // as requests name it, not where it lies
inline constexpr std::uint32_t kAllRights =
    objects::kLocalWrite | objects::kRemoteWrite | objects::kRemoteRead | objects::kRemoteAtomic;

inline std::int64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// Communication of the two processes outside of what is tested.
struct Board {
  std::atomic<std::uint64_t> stage;
  std::atomic<std::uint64_t> other_stage;
  std::atomic<std::uint32_t> key;
  std::atomic<std::uint64_t> count;
};

inline bool wait_for(const std::atomic<std::uint64_t>& stage, std::uint64_t value) {
  const auto start = now_ns();
  for (int i = 0; stage.load(std::memory_order_acquire) < value; ++i) {
    if (i > 1000) ::usleep(10);
    if (now_ns() - start > 40'000'000'000) return false;
  }
  return true;
}

inline void become_nobody() {
  if (::getuid() != 0) return;
  if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(90);
  // Changing the user clears dumpability, and with it ptrace access.
  ::prctl(PR_SET_DUMPABLE, 1);
}

struct DirectSide {
  DirectSide(std::unique_ptr<ShmLink> given, ShmChannel channel) : link(std::move(given)) {
    path = test_path(link->add_channel(std::move(channel)).value());
  }
  bool meet() {
    const auto start = now_ns();
    while (!link->reaches_directly(path.peer)) {
      link->handle_doorbells();
      if (now_ns() - start > 5'000'000'000) return false;
      ::usleep(100);
    }
    return true;
  }
  void publish_qp(std::uint32_t access = kAllRights, wire::Qpn peer_qpn = kInitiatorQpn) const {
    ASSERT_TRUE(link->publish(
        DirectQp{.qpn = kTargetQpn, .peer_qpn = peer_qpn, .peer = path.peer, .access = access, .domain = 5}));
  }
  void publish_memory(const void* host, std::uint64_t length, wire::RKey rkey = kRkey,
                      std::uint32_t access = kAllRights) const {
    ASSERT_TRUE(link->publish(DirectKey{
        .rkey = rkey, .address = kAddress, .length = length, .host = host, .access = access, .domain = 5}));
  }
  // Messages consist of two pieces; a word is one piece, which takes another copy path.
  static std::size_t cut(std::size_t length) { return length <= 8 ? 0 : length / 3; }
  bool write(std::uint64_t address, const std::uint8_t* data, std::size_t length,
             wire::RKey rkey = kRkey) const {
    const objects::PayloadSpan spans[2] = {{data, cut(length)}, {data + cut(length), length - cut(length)}};
    return link->direct_write(path, {kInitiatorQpn, kTargetQpn, rkey, address}, spans);
  }
  bool read(std::uint64_t address, std::uint8_t* data, std::size_t length) const {
    const objects::MutableSpan spans[2] = {{data, cut(length)}, {data + cut(length), length - cut(length)}};
    return link->direct_read(path, {kInitiatorQpn, kTargetQpn, kRkey, address}, spans);
  }
  bool add(std::uint64_t address, std::uint64_t operand, std::uint64_t& original,
           wire::RKey rkey = kRkey) const {
    return atomic({nullptr, false, operand, 0, 0}, address, original, rkey);
  }
  bool swap(std::uint64_t address, std::uint64_t compare, std::uint64_t value,
            std::uint64_t& original) const {
    return atomic({nullptr, true, value, compare, 0}, address, original, kRkey);
  }
  bool atomic(objects::AtomicCall call, std::uint64_t address, std::uint64_t& original,
              wire::RKey rkey) const {
    const bool done = link->direct_atomic(path, {kInitiatorQpn, kTargetQpn, rkey, address}, call);
    original = call.original;
    return done;
  }
  std::unique_ptr<ShmLink> link;
  objects::Path path;
};

// Runs the two bodies in two unprivileged children. Each returns 0 on success.
template <typename Target, typename Initiator>
void run_two(Target target, Initiator initiator) {
  auto* board =
      new (::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Board{};
  auto pair = ShmChannel::create(kRingOctetsMin).value();
  const auto start = [&](auto open, auto body) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::alarm(100);
    become_nobody();
    auto link = ShmLink::create().value();
    if (!link->enable_direct()) ::_exit(91);
    DirectSide side(std::move(link), open());
    ::_exit(body(side, *board));
  };
  const pid_t first = start([&] { return std::move(pair.own); }, target);
  const pid_t second = start(
      [&] { return ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell)).value(); },
      initiator);
  for (const pid_t child : {first, second}) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 0) << (child == first ? "target" : "initiator");
  }
  ::munmap(board, sizeof(Board));
}

// The number of the failed step becomes the exit code.
#define STEP(number, condition) \
  if (!(condition)) return number

}  // namespace rrdma::link
