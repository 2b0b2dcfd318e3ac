// MadPort: QP1. A UdpLink on slot 0 carries MADs as UD SENDs and checks every ICRC. MADs for an address of
// this host never leave the process, so programs on one host connect without a network.
//
// RRDMA_MAD_FAULT (drop and dup of link/fault_spec.h) drops and duplicates incoming MADs, for tests.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "base/instant.h"
#include "base/prng.h"
#include "cm/endpoint.h"
#include "daemon/counters.h"
#include "daemon/event_loop.h"
#include "daemon/slots/network.h"
#include "daemon/subsystem.h"
#include "host/interfaces.h"
#include "link/fault_spec.h"
#include "link/udp/udp_link.h"
#include "wire/introduction_mad.h"
#include "wire/pcapng_format.h"

namespace rrdma::daemon {

inline constexpr wire::QKey kGeneralServicesQKey{0x80010000};

struct ReceivedMad {
  cm::MadAddresses addresses;
  wire::MadBuffer octets{};
};

// The IP addresses of this host, read again when netlink reports a change.
class OwnAddresses {
 public:
  [[nodiscard]] bool contains(const wire::Gid& gid);

 private:
  void read();

  host::InterfaceMonitor monitor_;
  std::set<wire::Gid> known_;
  bool up_to_date_ = false;
};

class MadPort final : public Subsystem, private link::Receiver {
 public:
  // REQUIRES: all outlive this.
  MadPort(EventLoop& loop, Network& network, Counters& counters, std::uint64_t seed);
  ~MadPort() override;

  // Called when receive() has something.
  void on_arrival(std::function<void()> callback) { arrival_ = std::move(callback); }
  // Called with each MAD that introduces a host (wire/introduction_mad.h); receive() never returns those.
  void on_introduction(std::function<void(const ReceivedMad&)> callback) {
    introduction_ = std::move(callback);
  }
  // Called for each incoming MAD; false: drop it.
  void set_filter(std::function<bool(const cm::MadAddresses&, Octets)> filter) {
    filter_ = std::move(filter);
  }
  // Called for each MAD of the connection manager that is sent or arrives, as a packet.
  struct SeenMad {
    cm::MadAddresses addresses;                                         // as its receiver sees them
    wire::PacketDirection direction = wire::PacketDirection::kUnknown;  // unknown: within this host
    Octets mad;
    std::uint32_t psn = 0;
  };
  void set_observer(std::function<void(const SeenMad&)> observer) { observer_ = std::move(observer); }
  // Sends over the network, or to this host itself. A MAD that cannot be sent is lost, as on any network.
  void send(const cm::OutgoingMad& mad, Instant now);
  [[nodiscard]] std::optional<ReceivedMad> receive();
  // After a send() of another sender than the one that receives: the MAD may have come to this host itself.
  void announce() {
    if (!inbox_.empty() && arrival_) arrival_();
  }
  [[nodiscard]] bool is_own(const wire::Gid& gid) { return own_.contains(gid); }

  Verdict handle_message(Client&, control::Received&) override { return Verdict::kOthers; }
  // Opens the link once the network is up, and sends MADs for which the link had no room.
  [[nodiscard]] Instant next_deadline() const override;
  void handle_deadline(Instant now) override;

 private:
  void open_link();
  void handle_readable(int descriptor);
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;
  void transmit(const cm::OutgoingMad& mad, Instant now);
  void observe(const SeenMad& seen) const {
    if (observer_ && !wire::is_introduction(seen.mad)) observer_(seen);
  }
  void deliver(const cm::MadAddresses& addresses, Octets mad);

  EventLoop& loop_;
  Network& network_;
  Counters& counters_;
  Prng prng_;
  link::FaultSpec fault_;
  OwnAddresses own_;
  std::unique_ptr<link::UdpLink> link_;
  bool tried_ = false;
  std::uint64_t refused_icrc_seen_ = 0;
  std::deque<ReceivedMad> inbox_;
  std::function<void()> arrival_;
  std::function<void(const ReceivedMad&)> introduction_;
  std::function<bool(const cm::MadAddresses&, Octets)> filter_;
  std::function<void(const SeenMad&)> observer_;
  std::uint32_t next_psn_ = 0;
};

}  // namespace rrdma::daemon
