// MadPort: QP1 as the connection manager uses it. MADs travel as UD SENDs on UDP port 4791; what is for an
// address of this host never leaves the process, so that programs on one host connect without a network.
// Receiving is general_services.h's work: MadPort reads a datagram's transport octets and checks its ICRC.
//
// RRDMA_MAD_FAULT (drop and dup of link/fault_spec.h) loses and doubles MADs on their way in, for tests.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/instant.h"
#include "base/owned_fd.h"
#include "base/prng.h"
#include "cm/endpoint.h"
#include "control/messages.h"
#include "daemon/counters.h"
#include "link/fault_spec.h"
#include "wire/identification_solver.h"

namespace rrdma::daemon {

struct ReceivedMad {
  cm::MadAddresses addresses;
  std::vector<std::uint8_t> octets;
};

// The IP addresses of this host, asked for again when an unknown one comes up.
class OwnAddresses {
 public:
  [[nodiscard]] bool contains(const wire::Gid& gid, Instant now);

 private:
  void read();
  std::set<wire::Gid> known_;
  Instant read_at_{};
  bool read_once_ = false;
};

class MadPort {
 public:
  MadPort(Counters& counters, std::uint64_t seed);

  // Sends by the network, or queues for next_local().
  void send(const cm::OutgoingMad& mad, Instant now);
  // What this host has sent to itself.
  [[nodiscard]] std::optional<ReceivedMad> next_local();
  // The MAD of a datagram for QP1, if it is one that may be believed.
  [[nodiscard]] std::optional<ReceivedMad> parse(const control::FrameFields& frame);
  // Link-local addresses need their interface; it is learned from whoever uses one.
  void learn_interface(const wire::Gid& remote, std::uint32_t interface_index);
  [[nodiscard]] bool is_own(const wire::Gid& gid, Instant now) { return own_.contains(gid, now); }
  // How many of it to deliver: 1, unless faults are asked for.
  [[nodiscard]] unsigned copies();

 private:
  struct Sender {
    OwnedFd socket;
    std::uint16_t port = 0;
    bool tried = false;
  };
  Sender& sender_for(bool ipv4);
  void transmit(const cm::OutgoingMad& mad);

  Counters& counters_;
  Prng prng_;
  link::FaultSpec fault_;
  Sender v4_;
  Sender v6_;
  OwnAddresses own_;
  wire::IdentificationSolver solver_;
  std::deque<ReceivedMad> local_;
  std::map<wire::Gid, std::uint32_t> interfaces_;
  std::uint32_t next_psn_ = 0;
};

}  // namespace rrdma::daemon
