// The link between real processes: content both ways, sleeping and waking, death, and a hostile peer.
// Children are forked, do one thing and leave through _exit; every wait is bounded.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "link/shm/shm_link.h"
#include "link/shm/shm_test_frames.h"

namespace rrdma::link::shm_process_test {

constexpr std::int64_t kPatienceNs = 30'000'000'000;

std::int64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

template <typename Body>
pid_t fork_child(Body body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(60);
  ::_exit(body());
}

int exit_code(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

// One process's end of a channel.
struct End {
  explicit End(ShmChannel channel) : link(ShmLink::create().value()) {
    peer = link->add_channel(std::move(channel)).value();
  }
  // Waits like a background thread. False on timeout.
  bool sleep_until_something() {
    const bool asleep = link->arm();
    pollfd waits{.fd = link->fd(), .events = POLLIN, .revents = 0};
    const timespec patience{.tv_sec = 20, .tv_nsec = 0};
    const int woken = asleep ? raw::ppoll(&waits, 1, &patience) : 1;
    link->disarm();
    link->handle_doorbells();
    return woken == 1;
  }
  std::unique_ptr<ShmLink> link;
  std::uint32_t peer = 0;
};

End open_end(ShmChannel::Pair& pair) {
  return End(ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell)).value());
}

// Sends `count` frames and expects as many. If `sleeps`, it sleeps when there is nothing to do.
int exchange(End& end, std::uint32_t count, std::uint32_t train, bool sleeps) {
  const auto path = test_path(end.peer, train);
  CheckingReceiver receiver;
  std::vector<std::uint8_t> data;
  std::uint32_t sent = 0;
  const auto start = now_ns();
  while (sent < count || receiver.packets < count) {
    bool moved = false;
    if (sent < count) {
      data.resize(numbered_length(sent, train));
      fill_content(data, sent);
      if (send_numbered(*end.link, path, sent, data)) moved = ++sent != 0;
      end.link->flush({});
    }
    moved |= end.link->poll(receiver, {}, 16) != 0;
    if (!moved && now_ns() - start > kPatienceNs) return 2;
    if (!moved && sleeps && !end.sleep_until_something()) return 3;
  }
  return receiver.all_right() ? 0 : 4;
}

TEST(ShmProcess, BothSidesPollAndEverythingArrives) {
  auto pair = ShmChannel::create(kRingOctetsMin).value();
  const pid_t child = fork_child([&] {
    End end = open_end(pair);
    return exchange(end, 4'000, kShmTrainOctetsMax, false);
  });
  End end(std::move(pair.own));
  EXPECT_EQ(exchange(end, 4'000, kShmTrainOctetsMax, false), 0);
  EXPECT_EQ(counter(*end.link, "shm_doorbells_rung"), 0u) << "no system call while both poll";
  EXPECT_EQ(exit_code(child), 0);
}

TEST(ShmProcess, BothSidesSleepAndNoWakeUpIsLost) {
  auto pair = ShmChannel::create(kRingOctetsMin).value();
  const pid_t child = fork_child([&] {
    End end = open_end(pair);
    return exchange(end, 20'000, kShmTrainOctetsMax, true);
  });
  End end(std::move(pair.own));
  EXPECT_EQ(exchange(end, 20'000, kShmTrainOctetsMax, true), 0);
  EXPECT_EQ(exit_code(child), 0);
}

TEST(ShmProcess, PingPongOfSleepers) {
  constexpr std::uint32_t kTrips = 5'000;
  auto pair = ShmChannel::create(kRingOctetsMin).value();
  const auto play = [](End& end, bool serves) {
    const auto path = test_path(end.peer);
    CheckingReceiver receiver;
    std::vector<std::uint8_t> data(8);
    for (std::uint32_t i = 0; i < kTrips; ++i) {
      fill_content(data, i);
      if (serves) {
        static_cast<void>(send_numbered(*end.link, path, i, data));
        end.link->flush({});
      }
      while (end.link->poll(receiver, {}, 1) == 0) {
        if (!end.sleep_until_something()) return 3;
      }
      if (!serves) {
        static_cast<void>(send_numbered(*end.link, path, i, data));
        end.link->flush({});
      }
    }
    return receiver.all_right() ? 0 : 4;
  };
  const pid_t child = fork_child([&] {
    End end = open_end(pair);
    return play(end, false);
  });
  End end(std::move(pair.own));
  EXPECT_EQ(play(end, true), 0);
  EXPECT_EQ(exit_code(child), 0);
}

TEST(ShmProcess, AKilledPeerIsToldAsLost) {
  auto pair = ShmChannel::create(kRingOctetsMin).value();
  const pid_t child = fork_child([&] {
    End end = open_end(pair);
    for (std::uint32_t i = 0; i < 3; ++i)
      static_cast<void>(send_numbered(*end.link, test_path(end.peer), i, {}));
    end.link->flush({});
    for (;;) ::pause();
    return 0;
  });
  pair.peer_memory.reset();
  pair.peer_doorbell.reset();
  End end(std::move(pair.own));
  CheckingReceiver receiver;
  while (receiver.packets < 3) end.link->poll(receiver, {}, 16);
  ::kill(child, SIGKILL);
  EXPECT_TRUE(end.sleep_until_something());
  EXPECT_EQ(end.link->poll_lost(), end.peer);
  EXPECT_EQ(exit_code(child), 1000 + SIGKILL);
}

// The child writes noise over all memory that it was given, for as long as the honest traffic beside it
// lasts.
TEST(ShmProcess, AHostilePeerStallsNobodyElse) {
  auto hostile = ShmChannel::create(kRingOctetsMin).value();
  auto honest = ShmChannel::create(kRingOctetsMin).value();
  const pid_t scribbler = fork_child([&] {
    const std::size_t octets = channel_octets(kRingOctetsMin);
    auto* memory = static_cast<std::uint8_t*>(
        ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED, hostile.peer_memory.get(), 0));
    ChannelHeader header;
    std::memcpy(&header, memory, sizeof header);
    Prng prng(9);
    for (std::uint64_t i = 0;; ++i) {
      // Mix plausible records with noise: the correct ready word followed by anything.
      std::uint8_t* at = memory + ring_offset(1, kRingOctetsMin) + prng.below(kRingOctetsMin / 64) * 64;
      store_native(at + 8, prng.next());
      if (prng.below(2) == 0) store_native(at, header.nonce[1] + i % 8192);
      store_native(memory + prng.below(octets / 8) * 8, prng.next());
      if (i % 256 == 0) {
        const std::uint8_t noise[3] = {1, 2, 3};
        static_cast<void>(raw::sendto(hostile.peer_doorbell.get(), noise, prng.below(4),
                                      MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0));
      }
    }
    return 0;
  });
  const pid_t child = fork_child([&] {
    End end = open_end(honest);
    return exchange(end, 5'000, kShmTrainOctetsMax, true);
  });
  End end(std::move(honest.own));
  const std::uint32_t bad_peer = end.link->add_channel(std::move(hostile.own)).value();
  // Also send to the hostile peer, so that its `consumed` is read.
  CheckingReceiver receiver;
  const auto start = now_ns();
  const auto path = test_path(end.peer, kShmTrainOctetsMax);
  const auto bad_path = test_path(bad_peer, kShmTrainOctetsMax);
  std::vector<std::uint8_t> data;
  std::uint32_t sent = 0;
  std::uint64_t honest_packets = 0;
  struct HonestOnly final : Receiver {
    explicit HonestOnly(CheckingReceiver& inner) : checking(inner) {}
    void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
      const bool numbered = packet.headers.bth.opcode == wire::Opcode(wire::Transport::kReliableConnection,
                                                                      wire::Step::kSendOnlyImmediate) &&
                            packet.headers.immediate.raw == checking.next;
      if (numbered) checking.on_packet(packet, origin);
    }
    CheckingReceiver& checking;
  } filter(receiver);
  while ((sent < 5'000 || receiver.packets < 5'000) && now_ns() - start < kPatienceNs) {
    static_cast<void>(send_numbered(*end.link, bad_path, 0, {}));
    if (sent < 5'000) {
      data.resize(numbered_length(sent, kShmTrainOctetsMax));
      fill_content(data, sent);
      if (send_numbered(*end.link, path, sent, data)) ++sent;
    }
    end.link->flush({});
    end.link->poll(filter, {}, 16);
    end.link->handle_doorbells();
    honest_packets = receiver.packets;
  }
  EXPECT_EQ(sent, 5'000u);
  EXPECT_EQ(honest_packets, 5'000u);
  EXPECT_EQ(exit_code(child), 0);
  ::kill(scribbler, SIGKILL);
  EXPECT_EQ(exit_code(scribbler), 1000 + SIGKILL);
}

}  // namespace rrdma::link::shm_process_test
