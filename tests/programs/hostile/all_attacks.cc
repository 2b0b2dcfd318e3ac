// all_attacks SECONDS: one hostile user of a system daemon, with four processes that attack at once until the
// time is over: questions without end, everything of which there is a number, packets in the name of others,
// and descriptors that harm the receiver. sixteen_users_test.py runs it beside the programs of fifteen other
// users.
#include <linux/memfd.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "attacker.h"
#include "base/prng.h"
#include "control/capture_messages.h"
#include "control/cm_messages.h"
#include "control/fault_messages.h"
#include "control/process_page.h"
#include "control/recognition_messages.h"
#include "daemon/disposal.h"
#include "host/clock.h"
#include "wire/headers.h"
#include "wire/udp.h"

namespace rrdma::daemon {
namespace {

const std::string kDaemon(control::kNetworkName);
constexpr std::size_t kSlowMax = 200;
// Longer than the time before the measurement.
constexpr int kSlowSeconds = 12;
constexpr std::int64_t kPacketNs = 200'000;  // between two forged packets: a flood is a matter of the link

control::Hello hello_of(control::Role role) {
  control::Hello hello;
  hello.role = role;
  return hello;
}

// Asks with many connections and reads no answer; then begins anew. It rests in between, because the daemon
// bounds the time of a user: otherwise the questions would keep the other attacks out.
void ask(Instant until) {
  constexpr timespec kRest{.tv_sec = 0, .tv_nsec = 500'000'000};
  const auto page = control::ProcessPage::create();
  while (page.ok() && host::now() < until) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 200 && host::now() < until; ++i) {
      clients.push_back(std::make_unique<RawClient>(kDaemon));
      control::Hello hello = hello_of(i % 2 == 0 ? control::Role::kProgram : control::Role::kTool);
      hello.has_page = true;
      const int fds[] = {page->fd()};
      (void)clients.back()->send(control::encode(hello, 1), fds);
      for (std::uint32_t serial = 2; serial < 40; ++serial) {
        (void)clients.back()->send(control::encode(control::ListDevices{}, serial));
        (void)clients.back()->send(control::encode(control::ListProcesses{}, serial));
        (void)clients.back()->send(control::encode(control::QueryStatus{}, serial));
      }
    }
    clients.clear();
    (void)raw::ppoll(nullptr, 0, &kRest);
  }
}

control::CmConnect call_of(std::uint32_t number, Prng& prng) {
  control::CmConnect call = call_from(kHere);
  call.number = number;
  call.parameters.qpn = wire::Qpn(static_cast<std::uint32_t>(prng.below(1 << 24)));
  return call;
}

// Takes slots, ports, listeners, calls, groups, captures, faults and remembered peers until they are refused.
void take(Instant until) {
  Prng prng(20261118);
  while (host::now() < until) {
    RawClient program(kDaemon), tool(kDaemon);
    (void)program.send(control::encode(hello_of(control::Role::kProgram), 1));
    (void)tool.send(control::encode(hello_of(control::Role::kTool), 1));
    for (std::uint32_t i = 1; i < 3000 && host::now() < until; ++i) {
      (void)program.send(control::encode(control::RequestSlot{}, i));
      (void)program.send(control::encode(control::CmBind{.number = i}, i));
      (void)program.send(control::encode(control::CmListen{.number = i, .backlog = 4096}, i));
      (void)program.send(control::encode(call_of(i, prng), i));
      control::RecognisePeer question{.local = kHere, .remote = kHere};
      for (std::size_t at = 12; at < 16; ++at)
        question.remote.octets[at] = static_cast<std::uint8_t>(prng.next());
      (void)program.send(control::encode(question, i));
      (void)tool.send(control::encode(control::SetFault{.rule = "net=drop=50%"}, i));
      int ends[2];
      if (i % 64 == 0 && raw::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        const OwnedFd near(ends[0]), far(ends[1]);
        const int fds[] = {far.get()};
        (void)tool.send(control::encode(control::StartCapture{}, i), fds);
      }
      program.skip_all();
      tool.skip_all();
    }
  }
}

// Packets of every kind to any QPN, from an address of the host.
void forge(Instant until) {
  Prng prng(7);
  const OwnedFd socket(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in port{};
  port.sin_family = AF_INET;
  port.sin_port = htons(wire::kRoceUdpPort);
  port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (Instant next = host::now(); next < until; next = next + nanoseconds(kPacketNs)) {
    while (host::now() < next) {
    }
    std::array<std::uint8_t, 96> packet;
    for (std::uint8_t& octet : packet) octet = static_cast<std::uint8_t>(prng.next());
    packet[5] = prng.below(4) == 0 ? 0 : packet[5] & 3;  // QPNs that are in use, and QP1
    if (prng.below(3) == 0) packet[0] = 0x81;            // a congestion notification
    (void)raw::sendto(socket.get(), packet.data(), packet.size(), MSG_DONTWAIT,
                      reinterpret_cast<const sockaddr*>(&port), sizeof port);
  }
}

// Descriptors that grow, are no pages or close slowly, garbage, and connections that end in the middle of it.
void harm(Instant until) {
  Prng prng(11);
  std::vector<OwnedFd> peers;
  while (host::now() < until) {
    const OwnedFd memory(raw::memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    (void)raw::ftruncate(memory.get(), std::int64_t{1} << 40);
    RawClient client(kDaemon);
    control::Hello hello = hello_of(control::Role::kProgram);
    hello.has_page = true;
    hello.program = "\x1b[2J\nroot: all is well";
    const int fds[] = {memory.get()};
    (void)client.send(control::encode(hello, 1), fds);
    for (int i = 0; i < 8; ++i) {
      std::vector<std::uint8_t> garbage(prng.between(1, 2000));
      for (std::uint8_t& octet : garbage) octet = static_cast<std::uint8_t>(prng.next());
      (void)client.send(garbage, fds);
    }
    if (peers.size() == kSlowMax) continue;
    TcpPair slow = slow_to_close(kSlowSeconds);
    const int slow_fds[] = {slow.near.get()};
    // Otherwise the last close is ours.
    if (!RawClient(kDaemon).send(control::encode(hello, 1), slow_fds)) forbid_linger(slow.near.get());
    slow.near.reset();
    peers.push_back(std::move(slow.far));
  }
}

}  // namespace
}  // namespace rrdma::daemon

int main(int argc, char** argv) {
  using namespace rrdma;
  using namespace rrdma::daemon;
  const Instant until = host::now() + seconds(argc > 1 ? std::atoi(argv[1]) : 10);
  const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  const auto attacks = {ask, take, forge, harm};
  for (const auto attack : attacks) {
    if (::fork() == 0) {
      attack(until);
      ::_exit(0);
    }
  }
  int failed = 0, status = 0;
  while (::wait(&status) > 0) failed += status != 0;
  std::printf("%zu attacks, %d died\n", attacks.size(), failed);
  return failed == 0 ? 0 : 1;
}
