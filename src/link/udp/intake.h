// Intake: datagrams in, packets out. It receives from the slot sockets, splits datagrams that the kernel
// merged (UDP_GRO), checks each ICRC, parses and delivers. Buffers are allocated once.
//
// An empty receive costs nearly as much as a full one, and a process has a socket for each family. Every poll
// checks the socket that received last and any that received within kWarm; the others are checked once in
// kColdLook. Short datagrams that arrive in groups are received several in a call.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/instant.h"
#include "base/owned_fd.h"
#include "link/link.h"
#include "link/udp/envelope.h"
#include "link/udp/flow_cache.h"
#include "link/udp/udp_counters.h"
#include "wire/grh.h"
#include "wire/identification_solver.h"
#include "wire/transport_packet.h"

namespace rrdma::link {

enum class Look : std::uint8_t {
  kUsual,       // for continuous polling: cold sockets are skipped for a moment
  kPending,     // after the kernel reported arrivals: sockets that may hold something, until empty
  kEverywhere,  // skips no socket
};

class Intake {
 public:
  explicit Intake(UdpCounters& counters);

  // Receives from this socket from now on. REQUIRES: a bound UDP socket that reports destination address,
  // traffic class and segment size.
  void add_socket(OwnedFd socket);
  // Receives what a daemon passes on from this socket (envelope.h), and from no other any longer.
  void take_relay(OwnedFd socket);
  // No socket is received from any longer.
  void drop_sockets();
  [[nodiscard]] std::span<const int> descriptors() const { return descriptors_; }

  // See Link::poll().
  std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max);
  // Selects the sockets for the next poll, see Look.
  void look_next(Look look) { next_look_ = look; }
  // The kernel has reported an arrival at this descriptor.
  void note_arrival(int descriptor);

 private:
  static constexpr std::size_t kBufferOctets = kDatagramOctetsMax + 64;  // a relayed one has a header besides
  static_assert(kBufferOctets >= kDatagramOctetsMax + sizeof(RelayHeader));
  static constexpr Duration kColdLook = microseconds(4);
  static constexpr Duration kWarm = microseconds(100);
  static constexpr std::size_t kStreak = 4;
  static constexpr std::size_t kFlock = 8;
  static constexpr std::size_t kShortOctets = 8192;

  struct Socket {
    OwnedFd fd;
    Instant last_look{};
    Instant last_arrival{};
    std::size_t found = 0;   // by the last poll
    std::size_t streak = 0;  // consecutive polls that found exactly one
    bool brings_short = false;
    bool relayed = false;  // a daemon passes on what arrives for the slot
    bool dry = false;      // the last poll emptied it, and no arrival was noted since
  };
  struct alignas(cmsghdr) Control {
    std::array<std::uint8_t, kEnvelopeControlOctets> octets;
  };

  // Receives at most `wanted` datagrams into messages_. Returns their number.
  [[nodiscard]] std::size_t receive(const Socket& socket, std::size_t wanted);
  [[nodiscard]] std::size_t drain(Socket& socket, Receiver& receiver, std::size_t burst_max);
  void accept_datagram(const mmsghdr& received, bool relayed, Receiver& receiver);
  void accept_packet(Octets octets, const Envelope& envelope, Flow& flow, Receiver& receiver);
  [[nodiscard]] bool check_icrc(Octets octets, Flow& flow, std::uint16_t& identification);
  void count_refused(wire::TransportError error);

  UdpCounters& counters_;
  std::vector<Socket> sockets_;
  std::vector<int> descriptors_;
  Look next_look_ = Look::kUsual;
  std::size_t latest_ = 0;  // the socket that received last
  FlowCache flows_;
  wire::IdentificationSolver solver_;
  wire::TransportPacket packet_;             // of the current call: clearing one for each packet takes time
  std::unique_ptr<std::uint8_t[]> buffers_;  // kFlock buffers
  std::array<mmsghdr, kFlock> messages_{};
  std::array<iovec, kFlock> pieces_{};
  std::array<SenderAddress, kFlock> addresses_{};
  std::array<Control, kFlock> controls_{};
  std::array<std::uint8_t, wire::kGrhOctets> grh_{};
};

}  // namespace rrdma::link
