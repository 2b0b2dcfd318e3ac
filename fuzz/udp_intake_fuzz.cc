// Packets from the network to a slot's socket: datagrams of the input, sent through the kernel and the
// intake. Half of them have a valid ICRC; some are cut into segments of an arbitrary size.
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "base/assert.h"
#include "cost.h"
#include "input.h"
#include "link/udp/intake.h"
#include "wire/icrc.h"

namespace rrdma::udp_intake_fuzz {

using namespace rrdma::link;

class Listener final : public Receiver {
 public:
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
    RRDMA_ASSERT(origin.source.is_ipv4() && origin.destination.is_ipv4() && origin.party == 0);
    RRDMA_ASSERT(packet.payload.size() < 65536);
    for (const std::uint8_t octet : packet.payload) sum = sum + octet;
    if (origin.grh != nullptr) sum = sum + origin.grh[39];
  }
  volatile std::uint32_t sum = 0;
};

class World {
 public:
  World() : intake_(counters_), sender_(open_socket()) {
    OwnedFd receiver = open_socket();
    for (const int option : {IP_PKTINFO, IP_RECVTOS, IP_RECVTTL})
      RRDMA_ASSERT(raw::setsockopt(receiver.get(), IPPROTO_IP, option, 1) == 0);
    (void)raw::setsockopt(receiver.get(), IPPROTO_UDP, UDP_GRO, 1);
    target_ = name_of(receiver.get());
    source_ = name_of(sender_.get());
    intake_.add_socket(std::move(receiver));
  }

  void run(fuzz::Input input) {
    const fuzz::Cost cost({.ms = 500, .octets = 1 << 20});
    for (int i = 0; i < 16 && !input.empty(); ++i) send(input);
    for (int i = 0; i < 32; ++i) {
      intake_.look_next(Look::kEverywhere);
      if (intake_.poll(listener_, Instant{++time_ * 1'000'000}, 16) == 0) break;
    }
  }

 private:
  static OwnedFd open_socket() {
    OwnedFd socket(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    RRDMA_ASSERT(raw::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
    return socket;
  }
  static sockaddr_in name_of(int socket) {
    sockaddr_in name{};
    socklen_t size = sizeof name;
    RRDMA_ASSERT(raw::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size) == 0);
    return name;
  }

  void send(fuzz::Input& input) {
    const std::uint8_t choice = input.octet();
    (void)raw::setsockopt(sender_.get(), IPPROTO_IP, IP_TOS, input.octet());
    const Octets taken = input.take(input.octet() + (choice & 2) * 128u);
    std::vector<std::uint8_t> datagram(taken.begin(), taken.end());
    // The ICRC covers the destination port of RoCE, even if the test's socket is bound to another one.
    if ((choice & 1) != 0 && datagram.size() >= wire::kBthOctets) {
      const wire::Ipv4Address loopback{{127, 0, 0, 1}};
      const auto seed = wire::IcrcSeed::ipv4(loopback, loopback, ntohs(source_.sin_port));
      const std::uint32_t icrc = seed.icrc(datagram);
      datagram.resize(datagram.size() + wire::kIcrcOctets);
      wire::store_icrc(datagram.data() + datagram.size() - wire::kIcrcOctets, icrc);
    }
    const int segment = (choice & 4) != 0 ? 16 + input.octet() : 0;
    (void)raw::setsockopt(sender_.get(), IPPROTO_UDP, UDP_SEGMENT, segment);
    (void)raw::sendto(sender_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT,
                      reinterpret_cast<const sockaddr*>(&target_), sizeof target_);
  }

  UdpCounters counters_{};
  Intake intake_;
  OwnedFd sender_;
  sockaddr_in target_{}, source_{};
  Listener listener_;
  std::int64_t time_ = 0;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const world = new World;
  world->run(fuzz::Input({data, size}));
  return 0;
}

}  // namespace rrdma::udp_intake_fuzz
