// The cost of UdpLink over bare sockets, on the loopback device of a private network namespace: round trips
// of one small packet, and a stream of bursts of 4 KiB packets. In the stream, a shared counter keeps the
// sender within the receiver's buffer. First the CPU time of both ends in one thread, which is meaningful on
// a busy machine too; then the wall-clock time of two threads. Each figure is the best of several short runs.
#include <netinet/udp.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "link/udp/private_network.h"
#include "link/udp/udp_link.h"

namespace rrdma::link {
namespace {

namespace net = private_network;
using objects::Frame;
using objects::Path;

constexpr int kRuns = 7;
constexpr std::size_t kRoundTrips = 20'000;
constexpr std::size_t kStreamPackets = 120'000;
constexpr std::size_t kPayload = 4096;
constexpr std::size_t kWindowOctets = 1 << 20;

Instant now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

double seconds_of(const std::function<void()>& body) {
  const Instant start = now();
  body();
  return static_cast<double>((now() - start).ns) * 1e-9;
}

double best_of(const std::function<double()>& run, bool least) {
  double best = run();
  for (int i = 1; i < kRuns; ++i) best = least ? std::min(best, run()) : std::max(best, run());
  return best;
}

sockaddr_in address_of_host(std::uint8_t host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(4791);
  const wire::Gid gid = net::address_of(AF_INET, host);
  std::memcpy(&address.sin_addr, gid.octets.data() + 12, 4);
  return address;
}

// Bare sockets.

double bare_round_trip() {
  const OwnedFd a = net::slot_socket(AF_INET, 1);
  const OwnedFd b = net::slot_socket(AF_INET, 2);
  const sockaddr_in to_a = address_of_host(1);
  const sockaddr_in to_b = address_of_host(2);
  const auto bounce = [](int fd, const sockaddr_in& to) {
    std::uint8_t buffer[128];
    while (raw::recvfrom(fd, buffer, sizeof buffer, MSG_DONTWAIT, nullptr, nullptr) < 0) {
    }
    (void)raw::sendto(fd, buffer, 44, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  };
  std::thread echo([&] {
    for (std::size_t i = 0; i < kRoundTrips; ++i) bounce(b.get(), to_a);
  });
  const double elapsed = seconds_of([&] {
    std::uint8_t packet[44] = {};
    (void)raw::sendto(a.get(), packet, sizeof packet, 0, reinterpret_cast<const sockaddr*>(&to_b),
                      sizeof to_b);
    for (std::size_t i = 1; i < kRoundTrips; ++i) bounce(a.get(), to_b);
    while (raw::recvfrom(a.get(), packet, sizeof packet, MSG_DONTWAIT, nullptr, nullptr) < 0) {
    }
  });
  echo.join();
  return elapsed / kRoundTrips * 1e6;
}

double bare_stream() {
  constexpr std::size_t kSegment = kPayload + 16;
  constexpr std::size_t kSegments = 15;
  const OwnedFd sender(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int segment = kSegment;
  (void)raw::setsockopt(sender.get(), IPPROTO_UDP, UDP_SEGMENT, segment);
  const OwnedFd receiver = net::slot_socket(AF_INET, 2);
  const sockaddr_in to = address_of_host(2);
  const std::size_t total = kStreamPackets / kSegments * kSegments * kSegment;
  std::atomic<std::size_t> received = 0;
  std::thread sink([&] {
    std::vector<std::uint8_t> buffer(65536);
    while (received.load(std::memory_order_relaxed) < total) {
      const ssize_t octets =
          raw::recvfrom(receiver.get(), buffer.data(), buffer.size(), MSG_DONTWAIT, nullptr, nullptr);
      if (octets > 0) received.fetch_add(static_cast<std::size_t>(octets));
    }
  });
  std::vector<std::uint8_t> memory(kSegment * kSegments);
  const double elapsed = seconds_of([&] {
    for (std::size_t sent = 0; sent < total; sent += memory.size()) {
      while (sent - received.load() > kWindowOctets && sent > received.load()) {
      }
      (void)raw::sendto(sender.get(), memory.data(), memory.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                        sizeof to);
    }
    sink.join();
  });
  return static_cast<double>(kStreamPackets) * kPayload / elapsed * 1e-9;
}

// The link.

class Counting final : public Receiver {
 public:
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin&) override {
    if (copy_to != nullptr) std::memcpy(copy_to, packet.payload.data(), packet.payload.size());
    ++packets;
  }
  std::size_t packets = 0;
  std::uint8_t* copy_to = nullptr;
};

std::unique_ptr<UdpLink> open_link(int family, std::uint8_t host, const UdpConfig& config) {
  IpSockets slot;
  (family == AF_INET ? slot.v4 : slot.v6) = net::slot_socket(family, host);
  auto link = UdpLink::open(std::span(&slot, 1), config);
  if (!link) std::abort();
  return std::move(*link);
}

Path path_between(int family, std::uint8_t from, std::uint8_t to) {
  Path path;
  path.local = net::address_of(family, from);
  path.remote = net::address_of(family, to);
  path.source_port = 0xc001;
  return path;
}

bool commit_write(Link& link, const Path& path, wire::Step step, std::uint32_t psn,
                  const std::uint8_t* memory, std::size_t octets) {
  Frame* frame = link.reserve(path);
  if (frame == nullptr) return false;
  wire::TransportHeaders headers;
  headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, step);
  headers.bth.destination = wire::Qpn(0x010001);
  headers.bth.psn = wire::Psn(psn);
  frame->header_octets =
      static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
  frame->add_span(memory, octets);
  link.commit(*frame);
  return true;
}

double link_round_trip(int family, const UdpConfig& config) {
  auto a = open_link(family, 1, config);
  auto b = open_link(family, 2, config);
  const auto bounce = [](Link& link, const Path& path, Counting& counting, std::size_t goal, bool answer) {
    const std::uint8_t octets[8] = {};
    while (counting.packets < goal) link.poll(counting, {}, 16);
    if (!answer) return;
    (void)commit_write(link, path, wire::Step::kWriteOnly, static_cast<std::uint32_t>(goal), octets, 8);
    link.flush({});
  };
  std::thread echo([&] {
    Counting counting;
    const Path path = path_between(family, 2, 1);
    for (std::size_t i = 1; i <= kRoundTrips; ++i) bounce(*b, path, counting, i, true);
  });
  Counting counting;
  const Path path = path_between(family, 1, 2);
  const double elapsed = seconds_of([&] {
    bounce(*a, path, counting, 0, true);
    for (std::size_t i = 1; i <= kRoundTrips; ++i) bounce(*a, path, counting, i, i != kRoundTrips);
  });
  echo.join();
  return elapsed / kRoundTrips * 1e6;
}

double link_stream(int family, const UdpConfig& config, wire::Step step, bool copies) {
  auto a = open_link(family, 1, config);
  auto b = open_link(family, 2, config);
  std::atomic<std::size_t> received = 0;
  std::thread sink([&] {
    Counting counting;
    std::vector<std::uint8_t> destination(kPayload);
    if (copies) counting.copy_to = destination.data();
    while (counting.packets < kStreamPackets) {
      b->poll(counting, {}, 1);
      received.store(counting.packets);
    }
  });
  std::vector<std::uint8_t> memory(64 * kPayload);
  const Path path = path_between(family, 1, 2);
  const double elapsed = seconds_of([&] {
    for (std::size_t sent = 0; sent < kStreamPackets;) {
      while ((sent - received.load()) * kPayload > kWindowOctets) {
      }
      for (std::size_t i = 0; i < 15 && sent < kStreamPackets; ++i, ++sent) {
        while (!commit_write(*a, path, step, static_cast<std::uint32_t>(sent),
                             memory.data() + sent % 64 * kPayload, kPayload)) {
        }
      }
      a->flush({});
    }
    sink.join();
  });
  if (b->tally().refused_icrc != 0)
    std::printf("wrong ICRCs: %llu\n", static_cast<unsigned long long>(b->tally().refused_icrc));
  return static_cast<double>(kStreamPackets) * kPayload / elapsed * 1e-9;
}

// Small packets of many QPs, with different neighbours: batches without coalescing. Millions of packets per
// second.
double link_batches(int family, const UdpConfig& config, std::size_t ports) {
  auto a = open_link(family, 1, config);
  auto b = open_link(family, 2, config);
  constexpr std::size_t kPackets = 200'000;
  std::atomic<std::size_t> received = 0;
  std::thread sink([&] {
    Counting counting;
    while (counting.packets < kPackets) {
      b->poll(counting, {}, 64);
      received.store(counting.packets);
    }
  });
  std::vector<std::uint8_t> memory(kPayload);
  std::vector<Path> paths(16, path_between(family, 1, 2));
  for (std::size_t i = 0; i < paths.size(); ++i)
    paths[i].source_port = static_cast<std::uint16_t>(0xc000 + i % ports * 4097);
  const double elapsed = seconds_of([&] {
    for (std::size_t sent = 0; sent < kPackets;) {
      while (sent - received.load() > 512) {
      }
      for (std::size_t i = 0; i < 32 && sent < kPackets; ++i, ++sent) {
        (void)commit_write(*a, paths[sent % paths.size()], wire::Step::kWriteOnly,
                           static_cast<std::uint32_t>(sent), memory.data(), 8 + i * 4);
      }
      a->flush({});
    }
    sink.join();
  });
  return static_cast<double>(kPackets) / elapsed * 1e-6;
}

// Both ends in one thread: CPU time for each packet.

double cpu_ns_of(std::size_t count, const std::function<void()>& body) {
  double best = 1e18;
  for (int run = 0; run < 40; ++run) {
    timespec start{};
    timespec end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    body();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    const double ns = static_cast<double>(end.tv_sec - start.tv_sec) * 1e9 +
                      static_cast<double>(end.tv_nsec - start.tv_nsec);
    best = std::min(best, ns / static_cast<double>(count));
  }
  return best;
}

// `unlike`: neighbours differ in length, so that they cannot be coalesced.
double cpu_of_link(int family, const UdpConfig& config, std::size_t burst, std::size_t octets,
                   wire::Step step, bool unlike, std::size_t ports) {
  auto a = open_link(family, 1, config);
  auto b = open_link(family, 2, config);
  std::vector<std::uint8_t> memory(64 * kPayload);
  std::vector<Path> paths(16, path_between(family, 1, 2));
  for (std::size_t i = 0; i < paths.size(); ++i)
    paths[i].source_port = static_cast<std::uint16_t>(0xc000 + i % ports * 4097);
  Counting counting;
  std::size_t sent = 0;
  constexpr std::size_t kRounds = 200;
  return cpu_ns_of(kRounds * burst, [&] {
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < burst; ++i, ++sent) {
        const std::size_t length = octets + (unlike ? i * 4 : 0);
        (void)commit_write(*a, paths[i % paths.size()], step, static_cast<std::uint32_t>(sent),
                           memory.data() + i * octets, length);
      }
      a->flush({});
      while (counting.packets < sent) b->poll(counting, {}, 64);
    }
  });
}

double cpu_of_bare(std::size_t segments, std::size_t octets) {
  const OwnedFd sender(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (segments > 1) (void)raw::setsockopt(sender.get(), IPPROTO_UDP, UDP_SEGMENT, static_cast<int>(octets));
  (void)raw::setsockopt(sender.get(), SOL_SOCKET, SO_NO_CHECK, segments > 1 ? 0 : 1);
  const OwnedFd receiver = net::slot_socket(AF_INET, 2);
  const sockaddr_in to = address_of_host(2);
  std::vector<std::uint8_t> memory(segments * octets);
  std::vector<std::uint8_t> buffer(65536);
  constexpr std::size_t kRounds = 200;
  return cpu_ns_of(kRounds * segments, [&] {
    for (std::size_t round = 0; round < kRounds; ++round) {
      (void)raw::sendto(sender.get(), memory.data(), memory.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                        sizeof to);
      while (raw::recvfrom(receiver.get(), buffer.data(), buffer.size(), MSG_DONTWAIT, nullptr, nullptr) <
             0) {
      }
    }
  });
}

void report_cpu() {
  UdpConfig plain;
  UdpConfig uring;
  uring.io_uring = true;
  const wire::Step only = wire::Step::kWriteOnly;
  const wire::Step middle = wire::Step::kWriteMiddle;
  std::printf("CPU ns for a packet, both ends together\n");
  std::printf("  one packet of 8 octets:        bare %.0f  link IPv4 %.0f  IPv6 %.0f\n", cpu_of_bare(1, 40),
              cpu_of_link(AF_INET, plain, 1, 8, only, false, 1),
              cpu_of_link(AF_INET6, plain, 1, 8, only, false, 1));
  std::printf("  train of 15 x 4 KiB:           bare %.0f  link IPv4 %.0f  IPv6 %.0f  READ response %.0f\n",
              cpu_of_bare(15, 4112), cpu_of_link(AF_INET, plain, 15, 4096, middle, false, 1),
              cpu_of_link(AF_INET6, plain, 15, 4096, middle, false, 1),
              cpu_of_link(AF_INET, plain, 15, 4096, wire::Step::kReadResponseMiddle, false, 1));
  std::printf("  train of 15 x 1 KiB:           bare %.0f  link IPv4 %.0f  READ response %.0f\n",
              cpu_of_bare(15, 1040), cpu_of_link(AF_INET, plain, 15, 1024, middle, false, 1),
              cpu_of_link(AF_INET, plain, 15, 1024, wire::Step::kReadResponseMiddle, false, 1));
  std::printf("  32 x 8 octets in a train:      link %.0f\n",
              cpu_of_link(AF_INET, plain, 32, 8, only, false, 1));
  std::printf("  32 unlike packets, one port:   link %.0f\n",
              cpu_of_link(AF_INET, plain, 32, 8, only, true, 1));
  std::printf("  32 unlike packets, four ports: link %.0f  io_uring %.0f\n",
              cpu_of_link(AF_INET, plain, 32, 8, only, true, 4),
              cpu_of_link(AF_INET, uring, 32, 8, only, true, 4));
}

void report() {
  UdpConfig plain;
  UdpConfig no_trains = plain;
  no_trains.segmentation = false;
  std::printf("round trip of a small packet, us:  bare sockets %.2f\n", best_of(bare_round_trip, true));
  std::printf("                                   link IPv4 %.2f  IPv6 %.2f\n",
              best_of([&] { return link_round_trip(AF_INET, plain); }, true),
              best_of([&] { return link_round_trip(AF_INET6, plain); }, true));
  std::printf("stream of 4 KiB packets, GB/s:     bare segmented sends %.2f\n", best_of(bare_stream, false));
  std::printf(
      "                                   link WRITE IPv4 %.2f  IPv6 %.2f  READ response %.2f  WRITE and "
      "copy %.2f\n",
      best_of([&] { return link_stream(AF_INET, plain, wire::Step::kWriteMiddle, false); }, false),
      best_of([&] { return link_stream(AF_INET6, plain, wire::Step::kWriteMiddle, false); }, false),
      best_of([&] { return link_stream(AF_INET, plain, wire::Step::kReadResponseMiddle, false); }, false),
      best_of([&] { return link_stream(AF_INET, plain, wire::Step::kWriteMiddle, true); }, false));
  std::printf(
      "                                   link WRITE without trains %.2f\n",
      best_of([&] { return link_stream(AF_INET, no_trains, wire::Step::kWriteMiddle, false); }, false));
  std::printf("batches of unlike packets, M/s:    one port %.2f  four ports %.2f\n",
              best_of([&] { return link_batches(AF_INET, plain, 1); }, false),
              best_of([&] { return link_batches(AF_INET, plain, 4); }, false));
}

}  // namespace
}  // namespace rrdma::link

int main(int argc, char**) {
  if (!rrdma::link::private_network::enter()) {
    std::perror("no network namespace of one's own");
    return 1;
  }
  rrdma::link::report_cpu();
  if (argc == 1) rrdma::link::report();
  return 0;
}
