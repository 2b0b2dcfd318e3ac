#include "daemon/qp1/mad_port.h"

#include <cstdlib>
#include <cstring>

#include "daemon/log.h"
#include "wire/introduction_mad.h"
#include "wire/source_port.h"
#include "wire/transport_packet.h"

namespace rrdma::daemon {
namespace {

constexpr wire::Opcode kDatagramSend{wire::Transport::kUnreliableDatagram, wire::Step::kSendOnly};
constexpr std::size_t kPacketsInOneTurn = 64;
constexpr std::size_t kInboxMax = 4096;
constexpr std::uint16_t kSourcePort = wire::source_port_of_datagrams(wire::kGeneralServicesQpn);

link::FaultSpec fault_from_environment() {
  const char* text = std::getenv("RRDMA_MAD_FAULT");
  if (text == nullptr) return {};
  auto spec = link::parse_fault_spec(text);
  if (spec.ok()) return *spec;
  log_line("RRDMA_MAD_FAULT is ignored: " + spec.error());
  return {};
}

objects::Path path_of(const cm::Route& route) {
  objects::Path path;
  path.local = route.local;
  path.remote = route.remote;
  path.source_port = kSourcePort;
  path.traffic_class = route.traffic_class;
  path.hop_limit = route.hop_limit;
  path.service_level = route.service_level;
  path.interface_index = route.interface_index;
  return path;
}

}  // namespace

bool OwnAddresses::contains(const wire::Gid& gid) {
  if (gid.is_ipv4() && gid.octets[12] == 127) return true;
  if (monitor_.fd() < 0 || monitor_.changed()) up_to_date_ = false;
  if (!up_to_date_) read();
  return known_.contains(gid);
}

// If netlink is unavailable (no descriptor left), the last known addresses stay valid.
void OwnAddresses::read() {
  const auto interfaces = host::read_interfaces();
  up_to_date_ = interfaces.ok();
  if (!interfaces) return;
  known_.clear();
  for (const host::Interface& interface : *interfaces) {
    for (const host::InterfaceAddress& address : interface.addresses) known_.insert(address.gid);
  }
}

MadPort::MadPort(EventLoop& loop, Network& network, Counters& counters, std::uint64_t seed)
    : loop_(loop), network_(network), counters_(counters), prng_(seed), fault_(fault_from_environment()) {
  if (fault_.any()) prng_ = Prng(fault_.seed);
}

MadPort::~MadPort() {
  if (link_ == nullptr) return;
  for (const int fd : link_->descriptors()) loop_.forget(fd);
}

Instant MadPort::next_deadline() const {
  if (link_ != nullptr) return link_->next_deadline();
  return network_.is_up() && !tried_ ? Instant{} : kNever;
}

void MadPort::handle_deadline(Instant now) {
  if (link_ == nullptr) {
    open_link();
  } else {
    link_->flush(now);
  }
}

void MadPort::open_link() {
  tried_ = true;
  IpSockets slot{network_.daemon_slot().v4.duplicate(), network_.daemon_slot().v6.duplicate()};
  link::UdpConfig config;
  config.segmentation = false;
  config.send_ports = 1;
  config.port_seed = kSourcePort - wire::kSourcePortMin;
  auto opened = link::UdpLink::open({&slot, 1}, config);
  if (!opened) {
    log_line("no sockets for MADs: " + std::string(opened.error().step) +
             " failed: " + std::strerror(opened.error().error) + ".");
    return;
  }
  link_ = std::move(*opened);
  for (const int fd : link_->descriptors())
    loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { handle_readable(fd); });
}

void MadPort::handle_readable(int descriptor) {
  link_->note_arrival(descriptor);
  link_->look_next(link::Look::kEverywhere);
  if (const std::size_t count = link_->poll(*this, EventLoop::now(), kPacketsInOneTurn); count > 0)
    counters_.add("frames.received", count);
  const std::uint64_t corrupt = link_->tally().refused_icrc + link_->tally().refused_identification;
  if (corrupt != refused_icrc_seen_) counters_.add("cm.mads_corrupt", corrupt - refused_icrc_seen_);
  refused_icrc_seen_ = corrupt;
  if (!inbox_.empty() && arrival_) arrival_();
}

void MadPort::on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  const bool is_mad = packet.headers.bth.opcode == kDatagramSend &&
                      packet.headers.bth.destination == wire::kGeneralServicesQpn &&
                      packet.headers.deth.qkey == kGeneralServicesQKey &&
                      packet.payload.size() == wire::kMadOctets;
  if (!is_mad) return counters_.add("frames.for_nobody");
  // MADs of this host to itself never arrive here, so another user forged this one.
  if (!wire::is_introduction(packet.payload) && own_.contains(origin.source))
    return counters_.add("cm.mads_forged");
  counters_.add("cm.mads_received");
  const cm::MadAddresses addresses{
      .local = origin.destination, .remote = origin.source, .interface_index = origin.interface_index};
  observe({addresses, wire::PacketDirection::kInbound, packet.payload, packet.headers.bth.psn.value});
  deliver(addresses, packet.payload);
}

// Once, unless injected faults drop or duplicate it.
void MadPort::deliver(const cm::MadAddresses& addresses, Octets mad) {
  if (filter_ && !filter_(addresses, mad)) return counters_.add("cm.mads_dropped_on_purpose");
  unsigned copies = 1;
  if (fault_.any()) {
    copies = prng_.chance_ppm(fault_.drop_ppm) ? 0 : prng_.chance_ppm(fault_.duplicate_ppm) ? 2 : 1;
    if (copies == 0) counters_.add("cm.mads_dropped_on_purpose");
  }
  for (; copies > 0; --copies) {
    if (inbox_.size() >= kInboxMax) return counters_.add("cm.mads_overflowed");
    ReceivedMad received{.addresses = addresses};
    std::copy(mad.begin(), mad.end(), received.octets.begin());
    if (!wire::is_introduction(mad)) {
      inbox_.push_back(received);
    } else if (introduction_) {
      introduction_(received);
    }
  }
}

std::optional<ReceivedMad> MadPort::receive() {
  if (inbox_.empty()) return std::nullopt;
  const ReceivedMad mad = inbox_.front();
  inbox_.pop_front();
  return mad;
}

void MadPort::send(const cm::OutgoingMad& mad, Instant now) {
  if (mad.route.local == mad.route.remote || own_.contains(mad.route.remote)) {
    counters_.add("cm.mads_within_host");
    const cm::MadAddresses addresses{
        .local = mad.route.remote, .remote = mad.route.local, .interface_index = mad.route.interface_index};
    observe({addresses, wire::PacketDirection::kUnknown, mad.octets, next_psn_++});
    return deliver(addresses, mad.octets);
  }
  transmit(mad, now);
}

void MadPort::transmit(const cm::OutgoingMad& mad, Instant now) {
  const objects::Path path = path_of(mad.route);
  objects::Frame* frame = link_ == nullptr || link_->source_port(path) == 0 ? nullptr : link_->reserve(path);
  if (frame == nullptr) return counters_.add("cm.mads_unsendable");
  wire::TransportHeaders headers{};
  headers.bth.opcode = kDatagramSend;
  headers.bth.pkey = wire::kDefaultPKey;
  headers.bth.destination = wire::kGeneralServicesQpn;
  headers.bth.psn = wire::Psn(next_psn_++);
  observe({{.local = mad.route.remote, .remote = mad.route.local},
           wire::PacketDirection::kOutbound,
           mad.octets,
           headers.bth.psn.value});
  headers.deth.qkey = kGeneralServicesQKey;
  headers.deth.source = wire::kGeneralServicesQpn;
  frame->header_octets =
      static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame->header.data()));
  frame->add_span(mad.octets.data(), mad.octets.size());
  link_->commit(*frame);
  link_->flush(now);
  counters_.add("cm.mads_sent");
}

}  // namespace rrdma::daemon
