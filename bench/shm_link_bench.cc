// The cost of the shared-memory link between two processes on two cores: ping-pong of small frames, their
// rate, direct writes compared with the bare system call, bursts of large frames, polling with many channels.
// Time is measured over many short stretches of about a millisecond, and the first decile is reported: on a
// shared machine, these are the undisturbed stretches.
#include <sched.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "link/shm/shm_link.h"
#include "objects/memory.h"

namespace rrdma::link {
namespace {

std::int64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

double first_decile(std::vector<double>& samples) {
  const auto at = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 10);
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

// Copies incoming data, as a responder does.
struct Sink final : Receiver {
  explicit Sink(std::size_t octets) : memory(octets) {}
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin&) override {
    std::memcpy(memory.data(), packet.payload.data(), packet.payload.size());
    ++packets;
  }
  std::vector<std::uint8_t> memory;
  std::uint64_t packets = 0;
};

struct Side {
  explicit Side(ShmChannel channel) : link(ShmLink::create().value()) {
    if (!link->enable_direct()) std::abort();
    path.peer = *link->add_channel(std::move(channel));
    path.local = wire::gid_of_ipv4({127, 0, 0, 1});
    path.remote = wire::gid_of_ipv4({127, 0, 0, 1});
  }
  bool send(const std::uint8_t* data, std::size_t length) {
    objects::Frame* frame = link->reserve(path);
    if (frame == nullptr) return false;
    wire::TransportHeaders headers;
    headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnly);
    headers.bth.pad = wire::pad_for(length);
    frame->header_octets =
        static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
    frame->add_span(data, length);
    link->commit(*frame);
    return true;
  }
  void flush() { link->flush({}); }
  std::size_t poll(Sink& sink, std::size_t burst = 64) { return link->poll(sink, {}, burst); }
  std::unique_ptr<ShmLink> link;
  objects::Path path;
};

// Runs `peer` in a child on core 1 and `own` here on core 0. Returns the result of `own`.
template <typename Peer, typename Own>
double run_pair(std::uint32_t ring_octets, Peer peer, Own own) {
  auto pair = ShmChannel::create(ring_octets).value();
  const pid_t child = ::fork();
  if (child == 0) {
    pin(1);
    Side side(ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell)).value());
    peer(side);
    std::_Exit(0);
  }
  pin(0);
  Side side(std::move(pair.own));
  const double result = own(side);
  ::waitpid(child, nullptr, 0);
  return result;
}

// Half of a round trip, in nanoseconds.
double ping_pong(std::size_t octets, std::uint32_t ring_octets) {
  constexpr std::uint64_t kTrips = 200'000;
  constexpr std::uint64_t kStretch = 1'000;
  const std::vector<std::uint8_t> data(octets, 1);
  return run_pair(
      ring_octets,
      [&](Side& side) {
        Sink sink(octets);
        while (sink.packets < kTrips) {
          if (side.poll(sink) == 0) continue;
          side.send(data.data(), octets);
          side.flush();
        }
      },
      [&](Side& side) {
        Sink sink(octets);
        std::vector<double> samples;
        auto start = now_ns();
        for (std::uint64_t i = 1; i <= kTrips; ++i) {
          side.send(data.data(), octets);
          side.flush();
          while (sink.packets < i) side.poll(sink);
          if (i % kStretch != 0) continue;
          const auto end = now_ns();
          samples.push_back(static_cast<double>(end - start) / kStretch / 2);
          start = end;
        }
        return first_decile(samples);
      });
}

// Nanoseconds for each frame of a one-way stream. The far side answers once at the end.
double stream(std::size_t octets, std::uint64_t frames, std::uint32_t ring_octets, std::size_t flush_every) {
  const std::size_t buffers = std::max<std::size_t>(1, (128 * 1024) / std::max<std::size_t>(octets, 1));
  std::vector<std::uint8_t> data(octets * buffers, 1);
  return run_pair(
      ring_octets,
      [&](Side& side) {
        Sink sink(octets);
        while (sink.packets < frames) side.poll(sink);
        side.send(data.data(), 8);
        side.flush();
      },
      [&](Side& side) {
        Sink sink(octets);
        side.path.train_octets = octets > 4096 ? static_cast<std::uint32_t>(octets) : 0;
        const std::uint64_t stretch = frames / 64;
        std::vector<double> samples;
        auto start = now_ns();
        for (std::uint64_t i = 1; i <= frames; ++i) {
          while (!side.send(data.data() + i % buffers * octets, octets)) side.flush();
          if (i % flush_every == 0) side.flush();
          if (i % stretch != 0) continue;
          const auto end = now_ns();
          samples.push_back(static_cast<double>(end - start) / static_cast<double>(stretch));
          start = end;
        }
        side.flush();
        while (sink.packets == 0) side.poll(sink);
        samples.erase(samples.begin());  // the ring was empty
        return first_decile(samples);
      });
}

constexpr wire::Qpn kQpn{3};
constexpr wire::RKey kRkey{0x12345600};

// Opens `memory` to the peer, and waits until the peer's memory is open to us.
void open_memory(Side& side, std::vector<std::uint8_t>& memory) {
  constexpr std::uint32_t kAccess = objects::kLocalWrite | objects::kRemoteWrite;
  side.link->publish(DirectQp{.qpn = kQpn, .peer_qpn = kQpn, .peer = side.path.peer, .access = kAccess});
  side.link->publish(
      DirectKey{.rkey = kRkey, .length = memory.size(), .host = memory.data(), .access = kAccess});
  while (!side.link->reaches_directly(side.path.peer)) side.link->handle_doorbells();
}

void spin_on_last(const std::vector<std::uint8_t>& memory, std::uint8_t mark) {
  while (__atomic_load_n(&memory.back(), __ATOMIC_ACQUIRE) != mark) {
  }
}

// Half of a round trip of direct writes into memory that the other side polls. `bare`: the limit, with only
// the system call. Both processes have `memory` at the same address, because it is allocated before the fork.
double direct_ping_pong(std::size_t octets, bool bare) {
  constexpr std::uint64_t kTrips = 100'000;
  constexpr std::uint64_t kStretch = 500;
  std::vector<std::uint8_t> memory(octets);
  std::vector<std::uint8_t> data(octets);
  const pid_t parent = ::getpid();
  pid_t child = 0;
  int told[2];
  if (::pipe(told) != 0) std::abort();
  const auto write = [&](Side& side, std::uint64_t trip) {
    data.back() = static_cast<std::uint8_t>(trip % 255 + 1);
    if (bare) {
      const iovec local{data.data(), octets};
      const iovec remote[2] = {{memory.data(), octets - 8}, {memory.data() + octets - 8, 8}};
      const bool split = octets > 8;
      if (::process_vm_writev(child, &local, 1, split ? remote : remote + 1, split ? 2 : 1, 0) < 0)
        std::abort();
      return;
    }
    const objects::PayloadSpan span{data.data(), octets};
    while (!side.link->direct_write(side.path, {kQpn, kQpn, kRkey, 0}, {&span, 1})) {
    }
  };
  return run_pair(
      kRingOctetsMin,
      [&](Side& side) {
        child = parent;
        const pid_t own = ::getpid();
        open_memory(side, memory);
        if (::write(told[1], &own, sizeof own) != sizeof own) std::abort();
        for (std::uint64_t i = 1; i <= kTrips; ++i) {
          spin_on_last(memory, static_cast<std::uint8_t>(i % 255 + 1));
          write(side, i);
        }
      },
      [&](Side& side) {
        open_memory(side, memory);
        if (::read(told[0], &child, sizeof child) != sizeof child) std::abort();
        std::vector<double> samples;
        auto start = now_ns();
        for (std::uint64_t i = 1; i <= kTrips; ++i) {
          write(side, i);
          spin_on_last(memory, static_cast<std::uint8_t>(i % 255 + 1));
          if (i % kStretch != 0) continue;
          const auto end = now_ns();
          samples.push_back(static_cast<double>(end - start) / kStretch / 2);
          start = end;
        }
        return first_decile(samples);
      });
}

// Nanoseconds for one direct write of a stream.
double direct_stream(std::size_t octets) {
  std::vector<std::uint8_t> memory(octets);
  const std::uint64_t writes = 2'000'000'000 / octets;
  return run_pair(
      kRingOctetsMin,
      [&](Side& side) {
        open_memory(side, memory);
        Sink sink(octets);
        while (sink.packets == 0) {
          side.poll(sink);
          ::usleep(1000);
        }
      },
      [&](Side& side) {
        const std::vector<std::uint8_t> data(octets, 1);
        open_memory(side, memory);
        const objects::PayloadSpan span{data.data(), octets};
        const std::uint64_t stretch = std::max<std::uint64_t>(1, writes / 64);
        std::vector<double> samples;
        auto start = now_ns();
        for (std::uint64_t i = 1; i <= writes; ++i) {
          while (!side.link->direct_write(side.path, {kQpn, kQpn, kRkey, 0}, {&span, 1})) {
          }
          if (i % stretch != 0) continue;
          const auto end = now_ns();
          samples.push_back(static_cast<double>(end - start) / static_cast<double>(stretch));
          start = end;
        }
        side.send(data.data(), 8);
        return first_decile(samples);
      });
}

// Nanoseconds of an empty poll.
double idle_poll(std::size_t channels) {
  auto link = ShmLink::create().value();
  std::vector<ShmChannel::Pair> pairs;
  for (std::size_t i = 0; i < channels; ++i) {
    pairs.push_back(ShmChannel::create(kRingOctetsMin).value());
    if (!link->add_channel(std::move(pairs.back().own))) std::abort();
  }
  Sink sink(64);
  constexpr int kPolls = 2'000;
  std::vector<double> samples;
  for (int stretch = 0; stretch < 100; ++stretch) {
    const auto start = now_ns();
    for (int i = 0; i < kPolls; ++i) link->poll(sink, {}, 16);
    samples.push_back(static_cast<double>(now_ns() - start) / kPolls);
  }
  return first_decile(samples);
}

void run() {
  for (const std::uint32_t ring : {256u * 1024, 1024u * 1024}) {
    std::printf("ring %u KiB\n", ring / 1024);
    std::printf("  ping-pong     8 B  %8.0f ns half RTT\n", ping_pong(8, ring));
    std::printf("  ping-pong  4096 B  %8.0f ns half RTT\n", ping_pong(4096, ring));
    std::printf("  rate          8 B  %8.2f M/s, flush each\n", 1e3 / stream(8, 1'000'000, ring, 1));
    std::printf("  rate          8 B  %8.2f M/s, flush by 16\n", 1e3 / stream(8, 1'000'000, ring, 16));
    for (const std::size_t octets : {4096u, 16384u, 32768u, 65536u}) {
      const double ns = stream(octets, 2'000'000'000 / octets, ring, 1);
      std::printf("  stream  %7zu B  %8.2f GB/s\n", octets, static_cast<double>(octets) / ns);
    }
  }
  for (const std::size_t octets : {8u, 64u, 4096u}) {
    const double bare = direct_ping_pong(octets, true);
    const double ours = direct_ping_pong(octets, false);
    std::printf("direct write %5zu B  %8.0f ns half RTT, bare call %.0f ns\n", octets, ours, bare);
  }
  for (const std::size_t octets : {65536u, 1048576u}) {
    std::printf("direct write %7zu B  %8.2f GB/s\n", octets,
                static_cast<double>(octets) / direct_stream(octets));
  }
  for (const std::size_t channels : {1u, 8u, 63u}) {
    std::printf("idle poll, %zu channels: %.1f ns\n", channels, idle_poll(channels));
  }
}

}  // namespace
}  // namespace rrdma::link

int main() { rrdma::link::run(); }
