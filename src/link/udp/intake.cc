#include "link/udp/intake.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/raw_syscall.h"
#include "wire/grh.h"

namespace rrdma::link {

Intake::Intake(UdpCounters& counters)
    : counters_(counters), buffers_(new std::uint8_t[kFlock * kBufferOctets]) {
  for (std::size_t i = 0; i < kFlock; ++i) {
    pieces_[i] = {buffers_.get() + i * kBufferOctets, kBufferOctets};
    msghdr& message = messages_[i].msg_hdr;
    message.msg_name = &addresses_[i];
    message.msg_iov = &pieces_[i];
    message.msg_iovlen = 1;
    message.msg_control = controls_[i].octets.data();
  }
}

void Intake::add_socket(OwnedFd socket) {
  descriptors_.push_back(socket.get());
  sockets_.push_back({.fd = std::move(socket)});
}

void Intake::take_relay(OwnedFd socket) {
  drop_sockets();
  add_socket(std::move(socket));
  sockets_.back().relayed = true;
}

void Intake::drop_sockets() {
  sockets_.clear();
  descriptors_.clear();
  latest_ = 0;
}

std::size_t Intake::poll(Receiver& receiver, Instant now, std::size_t burst_max) {
  const Look look = std::exchange(next_look_, Look::kUsual);
  std::size_t total = 0;
  for (std::size_t i = 0; i < sockets_.size() && total < burst_max; ++i) {
    Socket& socket = sockets_[i];
    const bool warm = i == latest_ || now - socket.last_arrival < kWarm;
    if (look == Look::kUsual && !warm && now - socket.last_look < kColdLook) continue;
    if (look == Look::kPending && socket.dry) continue;
    socket.last_look = now;
    const std::size_t count = drain(socket, receiver, burst_max - total);
    if (count == 0) continue;
    latest_ = i;
    socket.last_arrival = now;
    total += count;
  }
  return total;
}

void Intake::note_arrival(int descriptor) {
  for (Socket& socket : sockets_) {
    if (socket.fd.get() == descriptor) socket.dry = false;
  }
}

// After silence, and in a ping-pong, a datagram is usually the only one, and another receive would cost a
// system call. So receive one, unless the last poll found more or several in a row found one.
std::size_t Intake::drain(Socket& socket, Receiver& receiver, std::size_t burst_max) {
  const bool flocks = socket.found >= 2 || socket.streak >= kStreak;
  if (!flocks) burst_max = std::min(burst_max, std::size_t{1});
  std::size_t count = 0;
  socket.dry = false;
  while (count < burst_max) {
    // Trains are worth a call each, and one buffer for all of them stays in the cache.
    const std::size_t wanted = flocks && socket.brings_short ? std::min(kFlock, burst_max - count) : 1;
    const std::size_t received = receive(socket, wanted);
    socket.dry = received == 0;
    if (socket.dry) break;
    for (std::size_t i = 0; i < received; ++i) accept_datagram(messages_[i], socket.relayed, receiver);
    socket.brings_short = messages_[received - 1].msg_len <= kShortOctets;
    count += received;
    if (wanted > 1 && received < wanted) break;
  }
  socket.streak = count == 1 && burst_max == 1 ? socket.streak + 1 : 0;
  socket.found = count;
  return count;
}

std::size_t Intake::receive(const Socket& socket, std::size_t wanted) {
  for (std::size_t i = 0; i < wanted; ++i) {
    msghdr& message = messages_[i].msg_hdr;
    message.msg_namelen = sizeof(SenderAddress);
    message.msg_controllen = sizeof(Control);
  }
  for (;;) {
    ++counters_.receive_calls;
    ssize_t received = 0;
    if (wanted == 1) {
      const ssize_t octets = raw::recvmsg(socket.fd.get(), &messages_[0].msg_hdr, MSG_DONTWAIT);
      messages_[0].msg_len = static_cast<unsigned>(octets);
      received = octets < 0 ? -1 : 1;
    } else {
      received = raw::recvmmsg(socket.fd.get(), messages_.data(), static_cast<unsigned>(wanted), MSG_DONTWAIT,
                               nullptr);
    }
    if (received >= 0) return static_cast<std::size_t>(received);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) ++counters_.receive_errors;
    return 0;
  }
}

void Intake::accept_datagram(const mmsghdr& received, bool relayed, Receiver& receiver) {
  const msghdr& message = received.msg_hdr;
  Octets datagram(static_cast<const std::uint8_t*>(message.msg_iov->iov_base), received.msg_len);
  ++counters_.receives;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    ++counters_.refused_truncated;
    return;
  }
  const auto known = relayed ? read_relay_header(datagram) : read_envelope(message);
  if (!known) {
    ++counters_.refused_origin;
    return;
  }
  if (relayed) datagram = datagram.subspan(sizeof(RelayHeader));
  const Envelope& envelope = *known;
  Flow& flow = flows_.find({envelope.source, envelope.destination, envelope.source_port});
  if (envelope.segment_octets == 0 || envelope.segment_octets >= datagram.size()) {
    accept_packet(datagram, envelope, flow, receiver);
    return;
  }
  ++counters_.trains_received;
  while (!datagram.empty()) {
    const std::size_t octets = std::min(envelope.segment_octets, datagram.size());
    accept_packet(datagram.first(octets), envelope, flow, receiver);
    datagram = datagram.subspan(octets);
  }
}

void Intake::accept_packet(Octets octets, const Envelope& envelope, Flow& flow, Receiver& receiver) {
  if (octets.size() < wire::kBthOctets + wire::kIcrcOctets) {
    ++counters_.refused_short;
    return;
  }
  std::uint16_t identification = 0;
  if (!check_icrc(octets, flow, identification)) return;
  wire::TransportPacket& packet = packet_;
  const auto error = wire::parse_transport(octets.first(octets.size() - wire::kIcrcOctets), packet);
  if (error != wire::TransportError::kNone) {
    count_refused(error);
    return;
  }
  ++counters_.packets_received;
  counters_.octets_received += octets.size();
  objects::PacketOrigin origin;
  origin.source = envelope.source;
  origin.destination = envelope.destination;
  origin.source_port = envelope.source_port;
  origin.interface_index = envelope.interface_index;
  origin.traffic_class = envelope.traffic_class;
  origin.ecn_marked = (envelope.traffic_class & 3) == 3;
  if (packet.headers.bth.opcode.transport() == wire::Transport::kUnreliableDatagram) {
    wire::emit_grh_area({.source = envelope.source,
                         .destination = envelope.destination,
                         .traffic_class = envelope.traffic_class,
                         .hop_limit = envelope.hop_limit,
                         .identification = identification,
                         .datagram_octets = octets.size()},
                        grh_);
    origin.grh = grh_.data();
  }
  receiver.on_packet(packet, origin);
}

bool Intake::check_icrc(Octets octets, Flow& flow, std::uint16_t& identification) {
  if (flow.seed().network() == wire::Network::kIpv6) {
    if (wire::icrc_matches(flow.seed(), octets)) return true;
    ++counters_.refused_icrc;
    return false;
  }
  const wire::SolvedIcrc solved = solver_.check(flow.seed(), octets, flow.expected_identification());
  if (solved.verdict == wire::IcrcVerdict::kWrong) {
    ++counters_.refused_icrc;
    return false;
  }
  if (!flow.believes(solved.identification)) {
    ++counters_.refused_identification;
    return false;
  }
  if (solved.verdict == wire::IcrcVerdict::kSolved) ++counters_.icrc_solved;
  identification = solved.identification;
  return true;
}

void Intake::count_refused(wire::TransportError error) {
  switch (error) {
    case wire::TransportError::kNone: return;
    case wire::TransportError::kTooShort: ++counters_.refused_short; return;
    case wire::TransportError::kUnknownOpcode: ++counters_.refused_opcode; return;
    case wire::TransportError::kUnknownVersion: ++counters_.refused_version; return;
    case wire::TransportError::kPadBeyondPayload:
    case wire::TransportError::kNotPadded: ++counters_.refused_pad; return;
    case wire::TransportError::kPayloadLength: ++counters_.refused_payload_length; return;
  }
}

}  // namespace rrdma::link
